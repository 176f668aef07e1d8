package daemons_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// The reconciler runs a daemon for each object and removes the finalizer when the daemon has ended.
func ExampleSupervisor_daemon() {
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "0001", Finalizers: []string{"example.com/watch"}}} // the object on the API server

	ended := make(chan daemons.Key, 1)
	supervisor := daemons.New(daemons.Options{
		OnEnd: func(key daemons.Key) { ended <- key }, // an operator enqueues the object with source.Channel
	})

	watching := make(chan struct{})
	watch := func(ctx context.Context, _ progress.Attempt) error {
		fmt.Println("watching")
		close(watching)
		<-ctx.Done()
		fmt.Println("stopping:", context.Cause(ctx))
		return nil
	}
	reconciler := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		if obj.DeletionTimestamp.IsZero() {
			return reconcile.Result{}, supervisor.Ensure(daemons.Key{UID: obj.UID, ID: "watch"}, daemons.Task{
				Run:    watch,
				Policy: progress.Policy{Backoff: new(10 * time.Second)},
				Daemon: daemons.Daemon{Restart: daemons.RestartOnFailure, CancellationTimeout: new(time.Minute)},
			})
		}
		supervisor.StopAll(obj.UID, daemons.ErrDeleted)
		if supervisor.Busy(obj.UID) {
			return reconcile.Result{}, nil // keep the finalizer; OnEnd triggers the next reconcile
		}
		supervisor.Forget(obj.UID)
		obj.Finalizers = nil
		return reconcile.Result{}, nil
	})

	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- supervisor.Start(ctx) }() // an operator calls mgr.Add(supervisor)

	happens := func() {
		if _, err := reconciler.Reconcile(ctx, reconcile.Request{}); err != nil {
			fmt.Println(err)
		}
	}
	happens()
	<-watching
	happens() // this has no effect, because the daemon already runs

	obj.DeletionTimestamp = new(metav1.Now())
	happens()
	<-ended
	happens()
	fmt.Println("finalizers:", len(obj.Finalizers))

	cancel()
	fmt.Println(<-stopped)
	// Output:
	// watching
	// stopping: object deleted
	// finalizers: 0
	// <nil>
}

// The timer runs at fixed points that depend on the creation time of the object. The timers of several objects are
// therefore spread over time, and a restart of the operator does not move the points.
func ExampleSupervisor_timer() {
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "0001", CreationTimestamp: metav1.Now()}}
	supervisor := daemons.New(daemons.Options{})

	polled := make(chan struct{})
	poll := func(_ context.Context, attempt progress.Attempt) error {
		fmt.Println("polling, attempt", attempt.Number)
		if attempt.Number == 0 {
			return progress.Temporary(fmt.Errorf("no answer"), time.Millisecond)
		}
		close(polled)
		return nil
	}
	reconciler := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, supervisor.Ensure(daemons.Key{UID: obj.UID, ID: "poll"}, daemons.Task{
			Run: poll,
			Timer: &daemons.Timer{
				Interval: time.Hour, Sharp: true, Anchor: obj.CreationTimestamp.Time,
				Last:        obj.CreationTimestamp.Add(-1), // the creation time is the first due point
				MaxParallel: 4,
			},
		})
	})

	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- supervisor.Start(ctx) }()
	if _, err := reconciler.Reconcile(ctx, reconcile.Request{}); err != nil {
		fmt.Println(err)
	}
	<-polled
	cancel()
	fmt.Println(<-stopped)
	// Output:
	// polling, attempt 0
	// polling, attempt 1
	// <nil>
}

// Check returns all errors of a task.
func ExampleTask_Check() {
	fmt.Println(daemons.Task{Timer: &daemons.Timer{Interval: -time.Second, Jitter: 2}}.Check())
	// Output:
	// Run is nil: set a function
	// Interval must not be negative, got -1s
	// Jitter must be a fraction from 0 to 1, got 2
}
