package main

import (
	"testing"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/99-all-at-once/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
)

// The file must contain the permissions that the operator needs. KOPF_UPDATE_RIGHTS=1 go test writes it.
func TestRights(t *testing.T) {
	if err := v1.AddToScheme(clientgoscheme.Scheme); err != nil {
		t.Fatal(err)
	}
	kopftest.CheckRights(t, "config/rbac/rbac.yaml", clientgoscheme.Scheme, rights.Options{
		Name: "all-at-once", ServiceAccount: "all-at-once", Namespace: "default",
	}, operator(addresses{host: "localhost"}, peering.Options{Name: "all-at-once"})...)
}
