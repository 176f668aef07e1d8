package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
)

// The file must contain the permissions that the operator needs. KOPF_UPDATE_RIGHTS=1 go test writes it.
func TestRights(t *testing.T) {
	kopftest.CheckRights(t, "config/rbac/rbac.yaml", clientgoscheme.Scheme, rights.Options{
		Name: "builtins-operator", ServiceAccount: "builtins-operator", Namespace: "default",
		Kinds: []metav1.APIResource{ // the operator selects pods by their short name
			{Version: "v1", Kind: "Pod", Name: "pods", ShortNames: []string{"po"}, Namespaced: true, Verbs: metav1.Verbs{"list", "watch", "patch"}},
			{Version: "v1", Kind: "Pod", Name: "pods/status", Namespaced: true, Verbs: metav1.Verbs{"get", "patch"}},
		},
	}, operator()...)
}
