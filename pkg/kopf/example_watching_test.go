package kopf_test

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

func ExampleResource_OnEvent() {
	kopf.For(&corev1.Pod{}).
		OnEvent("watch", func(ctx context.Context, req *kopf.Request[*corev1.Pod]) error {
			if req.Event == watch.Deleted {
				log.FromContext(ctx).Info("Gone", "phase", req.Object.Status.Phase) // its last state
			}
			return nil
		})
}

func ExampleResource_OnEvent_types() {
	kopf.For(&corev1.Pod{}).
		OnEvent("watch", func(ctx context.Context, req *kopf.Request[*corev1.Pod]) error {
			switch req.Event {
			case watch.Added, watch.Modified:
				log.FromContext(ctx).Info("News", "phase", req.Object.Status.Phase)
			case watch.Deleted:
				log.FromContext(ctx).Info("Gone")
			default: // the object existed when the operator started
			}
			return nil
		})
}

func ExampleResource_OnReconcile() {
	kopf.For(&Database{}).
		OnReconcile("service", func(ctx context.Context, req *DatabaseRequest) error {
			// Make the actual state match the desired state.
			address, err := cloud.Ensure(ctx, req.Object.Name, req.Object.Spec.Size)
			req.Object.Status.Address = address
			return err
		}, kopf.Interval(10*time.Minute)).
		Owns(&corev1.Service{})
}

func ExampleInterval() {
	kopf.For(&Database{}).
		OnReconcile("check", announce, kopf.Interval(time.Minute)) // the interval starts after each success; an event can trigger the handler earlier
}

func ExampleResource_Owns() {
	kopf.For(&Database{}).
		OnReconcile("service", announce).
		Owns(&appsv1.Deployment{}, predicate.GenerationChangedPredicate{}). // the predicate ignores status changes
		Owns(&corev1.Secret{})
}

type DatabaseReconciler struct{}

func (*DatabaseReconciler) Reconcile(context.Context, reconcile.Request) (reconcile.Result, error) {
	return reconcile.Result{RequeueAfter: time.Minute}, nil
}

func ExampleFromReconciler() {
	databases := kopf.For(&Database{}).
		OnReconcile("main", kopf.FromReconciler[*Database](&DatabaseReconciler{})). // the one you have
		Owns(&corev1.Service{}).
		OnDelete("drop", drop) // what is new

	_ = kopf.SetupWithManager(mgr, databases)
}

func ExampleRequest_Eventf() {
	kopf.For(&Database{}).
		OnUpdate("resize", func(_ context.Context, req *DatabaseRequest) error {
			before, after := req.Field()
			req.Eventf("Normal", "Resized", "Resize", "from %v to %v", before, after)
			return nil
		}, kopf.Field("spec.size"))
}
