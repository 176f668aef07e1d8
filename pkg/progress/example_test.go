package progress_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// The reconciler creates a volume and sends a notification, each once per generation of the object.
func ExampleRun() {
	stored := &corev1.ConfigMap{} // represents the API server
	store := progress.Annotations("volumes.example.com")

	create := progress.Step{ID: "create", Do: func(context.Context, progress.Attempt) error {
		fmt.Println("creating the volume")
		return nil
	}}
	announce := progress.Step{ID: "announce", Do: func(_ context.Context, attempt progress.Attempt) error {
		fmt.Println("announcing it, attempt", attempt.Number)
		if attempt.Number == 0 {
			return progress.Temporary(errors.New("no listener"), 0)
		}
		return nil
	}}
	reconciler := reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		obj := stored.DeepCopy() // r.Get(ctx, request.NamespacedName, obj)
		cause := fmt.Sprintf("generation-%d", obj.Generation)
		report, err := progress.Run(ctx, store, obj, cause, create, announce)
		stored = obj // r.Patch(ctx, obj, client.MergeFrom(before)), also after an error
		fmt.Println("done:", report.Done)
		return reconcile.Result{RequeueAfter: report.RequeueAfter}, err
	})

	for range 3 {
		if _, err := reconciler.Reconcile(context.Background(), reconcile.Request{}); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// creating the volume
	// announcing it, attempt 0
	// done: false
	// announcing it, attempt 1
	// done: true
	// done: true
}

// Records are annotations in kopf's format.
func ExampleAnnotations() {
	obj := &corev1.ConfigMap{}
	store := progress.Annotations("volumes.example.com")
	err := store.Store(obj, "create/announce", progress.Record{
		Started: time.Date(2020, 12, 31, 23, 59, 59, 0, time.UTC),
		Purpose: "create", Retries: 2, Message: "no listener",
	})
	fmt.Println(err)
	fmt.Println(obj.Annotations["volumes.example.com/create.announce"])
	fmt.Println(obj.Annotations["volumes.example.com/kopf-managed"])

	record, err := store.Fetch(obj, "create/announce")
	fmt.Println(record.Retries, record.Finished(), err)
	// Output:
	// <nil>
	// {"started":"2020-12-31T23:59:59.000000+00:00","purpose":"create","retries":2,"success":false,"failure":false,"message":"no listener"}
	// yes
	// 2 false <nil>
}

// The policy defines the effect of an error. A temporary error defines its own delay.
func ExampleTemporary() {
	policy := progress.Policy{Backoff: new(10 * time.Second), Retries: new(5)}
	for _, err := range []error{
		progress.Temporary(errors.New("the volume is being made"), 3*time.Second),
		errors.New("connection refused"),
		progress.Permanent(errors.New("no such region")),
		nil,
	} {
		outcome := policy.Outcome(progress.Record{}, time.Now(), err)
		fmt.Println(outcome.Final, outcome.Success, outcome.Delay, outcome.Err)
	}
	// Output:
	// false false 3s the volume is being made
	// false false 10s connection refused
	// true false 0s no such region
	// true true 0s <nil>
}

// A baseline stores the last-handled configuration of an object.
func ExampleBaseline() {
	obj := &corev1.ConfigMap{Data: map[string]string{"size": "1Gi"}}
	baseline := progress.AnnotationBaseline("volumes.example.com")

	essence := func() []byte {
		text, err := progress.EncodeJSON(obj.Data)
		if err != nil {
			fmt.Println(err)
		}
		return text
	}
	fmt.Println("handled before:", baseline.Fetch(obj) != nil)
	baseline.Store(obj, essence())

	obj.Data["size"] = "2Gi"
	fmt.Printf("then %s, now %s\n", baseline.Fetch(obj), essence())
	// Output:
	// handled before: false
	// then {"size":"1Gi"}, now {"size":"2Gi"}
}

func ExampleExponential() {
	backoff := progress.Exponential(time.Second, time.Minute)
	for attempt := range 8 {
		fmt.Println(backoff(progress.Attempt{Number: attempt}, nil))
	}
	// Output:
	// 1s
	// 2s
	// 4s
	// 8s
	// 16s
	// 32s
	// 1m0s
	// 1m0s
}
