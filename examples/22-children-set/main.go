// Command 22-children-set is an operator that keeps two groups of child objects for each website.
package main

import (
	"context"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
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
	if err := kopf.SetupWithManager(mgr, operator()...); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// operator declares the websites, and the permissions that the handlers need for the children.
func operator() []kopf.Option {
	return []kopf.Option{
		websites(),
		kopf.Needs(&corev1.ConfigMap{}, "get", "create", "patch", "delete"), // Owns adds list and watch
		kopf.Needs(&appsv1.Deployment{}, "get", "create", "patch", "delete"),
		kopf.Needs(&corev1.Service{}, "get", "create", "patch", "delete"),
		// The admission plugin OwnerReferencesPermissionEnforcement requires this permission for the owner references of the children.
		kopf.NeedsRules(rbacv1.PolicyRule{APIGroups: []string{"demo.example.com"}, Resources: []string{"websites/finalizers"}, Verbs: []string{"update"}}),
	}
}

func websites() *kopf.Resource[*unstructured.Unstructured] {
	website := schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Website"}
	return kopf.For(kopf.Unstructured(website), kopf.WithConditions("PagesReady", "ServingReady")).
		// The engine calls the handlers after each change of the website or of its children.
		OnReconcile("pages", pages).
		OnReconcile("serving", serving).
		Owns(&corev1.ConfigMap{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{})
}

// owner returns the website as an owner of children.
func owner(req *Request) *children.Owner {
	return children.Of(req.Object, req.Client, children.FieldOwner("website-operator"))
}

// pages keeps one ConfigMap for each page, and deletes the ConfigMaps of removed pages.
func pages(ctx context.Context, req *Request) error {
	names, _, err := unstructured.NestedStringSlice(req.Object.Object, "spec", "pages")
	if err != nil {
		return kopf.Permanent(err)
	}
	var wanted []client.Object
	for _, name := range names {
		wanted = append(wanted, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: children.Name(req.Object, "page-"+name)},
			Data:       map[string]string{"index.html": "<h1>" + name + "</h1>"},
		})
	}
	result, err := owner(req).Set("pages", &corev1.ConfigMap{}).Apply(ctx, wanted...)
	report(ctx, req, "PagesReady", result)
	return err
}

// serving starts the server, and creates the Service when the server is ready.
func serving(ctx context.Context, req *Request) error {
	image, _, _ := unstructured.NestedString(req.Object.Object, "spec", "image")
	labels := map[string]string{"website": req.Object.GetName()}
	server := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: children.Name(req.Object, "server")},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "server", Image: image}}},
			},
		},
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: children.Name(req.Object, "http")},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	result, err := owner(req).Set("serving", &appsv1.Deployment{}, &corev1.Service{}).ApplyInOrder(ctx, server, service)
	report(ctx, req, "ServingReady", result)
	return err
}

// report logs the changes of a set, and writes its state to a condition.
func report(ctx context.Context, req *Request, conditionType string, result children.SetResult) {
	for _, child := range append(result.Children, result.Pruned...) {
		if child.Operation != "unchanged" {
			log.FromContext(ctx).Info("Child written", "child", child.Name, "operation", child.Operation, "state", child.State)
		}
	}
	req.Conditions().Set(result.Condition(conditionType))
}
