// Command 02-children is an operator that creates child objects and keeps them up to date.
package main

import (
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// Request is the request that the handlers receive.
type Request = kopf.Request[*unstructured.Unstructured]

func main() {
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	if err := run(); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

func run() error {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{NewCache: kopf.NewCache, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	h := &handlers{direct: mgr.GetAPIReader()}
	if err := kopf.SetupWithManager(mgr, h.operator()...); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// operator declares the databases, and the permissions that the handlers need for the children.
func (h *handlers) operator() []kopf.Option {
	return []kopf.Option{
		h.databases(),
		kopf.Needs(&corev1.Secret{}, "get", "create"),
		kopf.Needs(&corev1.ConfigMap{}, "create"),
		kopf.Needs(&appsv1.Deployment{}, "get", "create", "patch"), // Owns adds list and watch
		kopf.Needs(&corev1.Service{}, "get", "create", "patch"),
		// The admission plugin OwnerReferencesPermissionEnforcement requires this permission for the owner references of the children.
		kopf.NeedsRules(rbacv1.PolicyRule{APIGroups: []string{"demo.example.com"}, Resources: []string{"databases/finalizers"}, Verbs: []string{"update"}}),
	}
}

func (h *handlers) databases() *kopf.Resource[*unstructured.Unstructured] {
	database := schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Database"}
	return kopf.For(kopf.Unstructured(database)).
		// The engine calls these handlers once for each new database. The operator ignores later changes to the children.
		OnCreate("password", h.password).
		OnCreate("greeting", greeting).
		// abroad fails: a child must be in the namespace of its owner.
		OnCreate("abroad", abroad).
		// The engine calls server after each change of the database or of the children.
		OnReconcile("server", server).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{})
}
