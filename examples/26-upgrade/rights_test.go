package main

import (
	"testing"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
)

// The file must contain the permissions that the operator needs. KOPF_UPDATE_RIGHTS=1 go test writes it.
func TestRights(t *testing.T) {
	kopftest.CheckRights(t, "config/rbac/rbac.yaml", clientgoscheme.Scheme, rights.Options{
		Name: "upgrade-operator", ServiceAccount: "upgrade-operator", Namespace: "default",
	}, operator(2)...)
}
