package main

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// What the handlers are for, and what they are given.
type (
	Object  = *unstructured.Unstructured
	Request = kopf.Request[Object]
)

// An operator is a part of this program. It has a manager of its own, so that it can be stopped by itself.
type operator struct {
	stop  context.CancelFunc
	began chan struct{} // closed when it is on its way
	ended chan struct{} // closed when nothing of it runs any more
	err   error         // why it has ended; valid then
}

// start has an operator for the databases of a team, with handlers of its own, and returns when that is ready.
func start(ctx context.Context, config *rest.Config, team string, books *books) (*operator, error) {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Logger:  ctrl.Log.WithValues("team", team),
		Metrics: server.Options{BindAddress: "0"}, // the program may serve them: they are in one registry
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{team: {}}},
	})
	if err != nil {
		return nil, err
	}
	o := &operator{began: make(chan struct{}), ended: make(chan struct{})}
	op := kopf.New(mgr, databases(team, books), kopf.OnStartup("begin", func(context.Context) error {
		close(o.began)
		return nil
	}))
	if err := mgr.Add(op); err != nil {
		return nil, err
	}

	// Its life is not that of the request by which it was started.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	o.stop = stop
	go func() {
		o.err = mgr.Start(running)
		close(o.ended)
	}()
	if err := o.ready(ctx, op); err != nil {
		return nil, err
	}
	mgr.GetLogger().Info("Open")
	return o, nil
}

func databases(team string, books *books) *kopf.Resource[Object] {
	return kopf.For(kopf.Unstructured(schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Database"})).
		On("book", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonResume}, books.add(team)).
		OnDelete("strike", books.strike(team))
}

// ready waits until the handlers are being called. An operator that never comes to that is stopped.
func (o *operator) ready(ctx context.Context, op *kopf.Operator) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	select {
	case <-o.began: // before that, it says that it is ready to become the leader
	case <-o.ended:
	case <-ctx.Done():
	}
	if err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		return o.hasEnded() || op.Readyz(nil) == nil, nil
	}); err != nil || o.hasEnded() {
		return errors.Join(err, o.close())
	}
	return nil
}

// close returns when the handlers that were at work have returned.
func (o *operator) close() error {
	o.stop()
	<-o.ended
	return o.err
}

func (o *operator) hasEnded() bool {
	select {
	case <-o.ended:
		return true
	default:
		return false
	}
}
