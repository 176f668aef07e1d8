// Command 24-cluster-events is an operator that reports problems of the pods of databases, which it learns from Kubernetes Events.
package main

import (
	"context"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/clusterevents"
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
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{NewCache: kopf.NewCache, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	if err := kopf.SetupWithManager(mgr, operator()...); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func operator() []kopf.Option {
	return []kopf.Option{
		databases(),
		kopf.OnVersion("version", logVersion),
		kopf.Needs(&corev1.Pod{}, "create"),
		// The admission plugin OwnerReferencesPermissionEnforcement requires this permission for the owner references of the pods.
		kopf.NeedsRules(rbacv1.PolicyRule{APIGroups: []string{"demo.example.com"}, Resources: []string{"databases/finalizers"}, Verbs: []string{"update"}}),
	}
}

func databases() *kopf.Resource[*unstructured.Unstructured] {
	database := schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Database"}
	return kopf.For(kopf.Unstructured(database)).
		OnCreate("pod", createPod).
		OnEventAbout("problem", clusterevents.Selector{
			About:        []client.Object{&corev1.Pod{}},
			Reasons:      []string{"FailedScheduling", "Failed", "BackOff"},
			WarningsOnly: true,
			Since:        10 * time.Minute, // also Events from the time in which the operator was not running
		}, reportProblem, kopf.Retries(3), kopf.Backoff(5*time.Second))
}

// createPod creates the pod of a database. The pod has a fixed name, so that a second call creates no second pod.
func createPod(ctx context.Context, req *Request) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: req.Object.GetName() + "-0"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "server", Image: "postgres:17"}}},
	}
	if err := req.Adopt(pod); err != nil {
		return err
	}
	return client.IgnoreAlreadyExists(req.Client.Create(ctx, pod))
}

// reportProblem writes the message of an Event about the pod to the status of the database.
func reportProblem(ctx context.Context, req *Request, event *corev1.Event) error {
	log.FromContext(ctx).Info("A pod has a problem", "pod", event.InvolvedObject.Name, "problem", event.Reason, "count", event.Count)
	return unstructured.SetNestedField(req.Object.Object, event.Message, "status", "problem")
}

// logVersion is called at the start, and when the API server has another version.
func logVersion(ctx context.Context, old, current version.Info) error {
	log.FromContext(ctx).Info("The API server has another version", "old", old.GitVersion, "current", current.GitVersion)
	return nil
}
