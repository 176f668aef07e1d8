package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/05-handlers/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
)

// The file must contain the permissions that the operator needs. KOPF_UPDATE_RIGHTS=1 go test writes it.
func TestRights(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kopftest.CheckRights(t, "config/rbac/rbac.yaml", scheme, rights.Options{
		Name: "handlers-operator", ServiceAccount: "handlers-operator", Namespace: "default",
	}, websites())
}
