package kopf_test

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
)

// The roles contain what the operator needs for its kinds, and what the handlers need for their own requests.
func ExampleWriteRights() {
	configMaps := kopf.For(&corev1.ConfigMap{}).OnCreate("copy", copyConfigMap)
	operator := []kopf.Option{configMaps, kopf.Needs(&corev1.Secret{}, "get", "create")}

	if err := kopf.WriteRights(os.Stdout, clientgoscheme.Scheme, rights.Options{Name: "copier"}, operator...); err != nil {
		fmt.Println(err)
	}
	// Output:
	// apiVersion: rbac.authorization.k8s.io/v1
	// kind: ClusterRole
	// metadata:
	//   name: copier
	// rules:
	// - apiGroups: [""] # handlers of ConfigMap
	//   resources: [configmaps]
	//   verbs: [get, list, watch, patch]
	// - apiGroups: [""] # the handlers' own requests
	//   resources: [secrets]
	//   verbs: [get, create]
	// - apiGroups: [events.k8s.io] # Events
	//   resources: [events]
	//   verbs: [create, patch]
}

func copyConfigMap(context.Context, *kopf.Request[*corev1.ConfigMap]) error { return nil }

// The API server checks this permission for the owner references of children if the admission plugin OwnerReferencesPermissionEnforcement is enabled.
func ExampleNeedsRules() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision)

	_ = kopf.SetupWithManager(mgr, databases, kopf.NeedsRules(rbacv1.PolicyRule{
		APIGroups: []string{"example.com"}, Resources: []string{"databases/finalizers"}, Verbs: []string{"update"},
	}))
}

// The start fails if a permission is missing that is not optional.
func ExampleWithRightsCheck() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision)

	_ = kopf.SetupWithManager(mgr, databases, kopf.Needs(&corev1.Secret{}, "get", "create"), kopf.WithRightsCheck(rights.RequireAll))
}
