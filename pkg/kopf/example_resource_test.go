package kopf_test

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

func ExampleHandler() {
	var greet kopf.Handler[*Database] = func(ctx context.Context, req *DatabaseRequest) error {
		log.FromContext(ctx).Info("Hello") // the logger includes the kind, name, handler, reason and attempt
		return nil                         // the handler has succeeded and is not called again for this cause
	}
	kopf.For(&Database{}).OnCreate("greet", greet)
}

func ExampleWithName() {
	kopf.For(&Database{}, kopf.WithName("orders-databases")).OnCreate("provision", provision)
}

func ExampleWithControllerOptions_workers() {
	kopf.For(&Database{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 4})).OnCreate("provision", provision) // the operator reconciles up to four databases concurrently
}

func ExampleWithResults() {
	kopf.For(&Database{}, kopf.WithResults("status.results")).
		OnCreate("provision", func(_ context.Context, req *DatabaseRequest) error {
			req.SetResult("10.0.0.1") // the result is stored in status.results.provision
			return nil
		})
}

func ExampleWithDigestOnly() {
	// The spec of a Database contains a password, so the annotations must not contain a copy of the spec.
	kopf.For(&Database{}, kopf.WithDigestOnly(true)).OnUpdate("apply", provision) // req.Old and req.Diff are empty
}

func ExampleWithLoopGuard() {
	// Each step of a migration sets status.step, which triggers the next step. A migration has up to 100 short steps.
	kopf.For(&Database{}, kopf.WithLoopGuard(100)).OnField("migrate", "status.step", provision)
}

func ExampleWithPredicates() {
	// Changes of only the labels, the annotations or the status do not cause a reconcile.
	kopf.For(&Database{}, kopf.WithPredicates(predicate.GenerationChangedPredicate{})).OnUpdate("announce", announce)
}

func ExampleWithControllerOptions() {
	// After errors of the API server, the delays are longer than by default.
	kopf.For(&Database{}, kopf.WithControllerOptions(controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, 5*time.Minute),
	})).OnCreate("provision", provision)
}
