package main

import (
	"testing"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
)

// The file must contain the permissions that the operator needs. KOPF_UPDATE_RIGHTS=1 go test writes it.
func TestRights(t *testing.T) {
	kopftest.CheckRights(t, "config/rbac/rbac.yaml", newScheme(), rights.Options{
		Name: "testing-operator", ServiceAccount: "testing-operator", Namespace: "default",
	}, mailboxes(mailServer()))
}
