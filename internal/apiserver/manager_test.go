package apiserver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
)

// A manager with its cache and a controller runs on the server, in virtual time.
func TestManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.New(apiserver.FromScheme(clientgoscheme.Scheme)...)
		cfg := &rest.Config{Host: "http://in-memory", Transport: s, QPS: -1}
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{
			Scheme: clientgoscheme.Scheme, Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
			Controller:     config.Controller{SkipNameValidation: new(true)},
			LeaderElection: true, LeaderElectionID: "leader", LeaderElectionNamespace: "ns", LeaderElectionReleaseOnCancel: true,
		})
		must(t, err)
		counter := reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			deployment := &appsv1.Deployment{}
			if err := mgr.GetClient().Get(ctx, r.NamespacedName, deployment); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			pods := &corev1.PodList{}
			if err := mgr.GetClient().List(ctx, pods, client.InNamespace(r.Namespace), client.MatchingLabels{"app": r.Name}); err != nil {
				return reconcile.Result{}, err
			}
			mgr.GetEventRecorder("counter").Eventf(deployment, nil, corev1.EventTypeNormal, "Counted", "Count", "%d pods", len(pods.Items))
			before := deployment.DeepCopy()
			deployment.Status.Replicas = int32(len(pods.Items))
			return reconcile.Result{RequeueAfter: time.Hour}, mgr.GetClient().Status().Patch(ctx, deployment, client.MergeFrom(before))
		})
		must(t, ctrl.NewControllerManagedBy(mgr).For(&appsv1.Deployment{}).Owns(&corev1.Pod{}).Complete(counter))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()

		users, err := client.New(cfg, client.Options{Scheme: clientgoscheme.Scheme})
		must(t, err)
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
		must(t, users.Create(ctx, deployment))
		must(t, users.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", GenerateName: "web-", Labels: map[string]string{"app": "web"},
		}}))
		time.Sleep(5 * time.Minute) //nolint:forbidigo // virtual time of the bubble
		must(t, users.Get(ctx, client.ObjectKeyFromObject(deployment), deployment))
		if got := deployment.Status.Replicas; got != 1 {
			t.Errorf("status.replicas = %d, want 1", got)
		}
		core := &corev1.EventList{} // as kubectl describe lists them
		must(t, users.List(ctx, core, client.MatchingFields{"involvedObject.uid": string(deployment.UID)}))
		if len(core.Items) != 1 || core.Items[0].Message != "1 pods" || core.Items[0].ReportingController != "counter" {
			t.Fatalf("core Events: %v, want one about the deployment", core.Items)
		}
		event := &eventsv1.Event{}
		must(t, users.Get(ctx, client.ObjectKeyFromObject(&core.Items[0]), event))
		if event.Regarding.UID != deployment.UID || event.Note != "1 pods" {
			t.Errorf("Event of events.k8s.io: %v, want the same one", event)
		}
		must(t, users.Delete(ctx, &core.Items[0]))
		if err := users.Get(ctx, client.ObjectKeyFromObject(event), event); !apierrors.IsNotFound(err) {
			t.Errorf("get after the deletion of the core Event: %v, want not found", err)
		}
		must(t, users.Delete(ctx, deployment))
		if err := users.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); !apierrors.IsNotFound(err) {
			t.Errorf("get after the deletion: %v, want not found", err)
		}
		stop()
		must(t, <-ended)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
