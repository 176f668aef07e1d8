package main

import (
	"testing"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/16-indexing/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
)

// The file must contain the permissions that the operator needs. KOPF_UPDATE_RIGHTS=1 go test writes it.
func TestRights(t *testing.T) {
	if err := v1.AddToScheme(clientgoscheme.Scheme); err != nil {
		t.Fatal(err)
	}
	kopftest.CheckRights(t, "config/rbac/rbac.yaml", clientgoscheme.Scheme, rights.Options{
		Name: "indexing-operator", ServiceAccount: "indexing-operator", Namespace: "default",
	}, operator()...)
}
