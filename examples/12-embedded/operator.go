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

// Types of the objects and of the requests that the handlers receive.
type (
	Object  = *unstructured.Unstructured
	Request = kopf.Request[Object]
)

// An operator has its own manager, so that the program can stop it separately.
type operator struct {
	stop    context.CancelFunc
	started chan struct{} // closed when the startup handlers run
	ended   chan struct{} // closed when the manager has returned
	err     error         // result of the manager; valid when ended is closed
}

// startOperator starts an operator for the databases of a team, and returns when it is ready.
func startOperator(ctx context.Context, config *rest.Config, team string, inventory *inventory) (*operator, error) {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		NewCache: kopf.NewCache,
		Logger:   ctrl.Log.WithValues("team", team),
		Metrics:  server.Options{BindAddress: "0"}, // the program may serve the metrics, because all operators share one registry
		Cache:    cache.Options{DefaultNamespaces: map[string]cache.Config{team: {}}},
	})
	if err != nil {
		return nil, err
	}
	o := &operator{started: make(chan struct{}), ended: make(chan struct{})}
	op := kopf.New(mgr, o.options(team, inventory)...)
	if err := mgr.Add(op); err != nil {
		return nil, err
	}

	// The operator continues after the request that started it.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	o.stop = stop
	go func() {
		o.err = mgr.Start(running)
		close(o.ended)
	}()
	if err := o.waitUntilReady(ctx, op); err != nil {
		return nil, err
	}
	mgr.GetLogger().Info("Operator started")
	return o, nil
}

func (o *operator) options(team string, inventory *inventory) []kopf.Option {
	return []kopf.Option{databases(team, inventory), kopf.OnStartup("signal-start", func(context.Context) error {
		close(o.started)
		return nil
	})}
}

func databases(team string, inventory *inventory) *kopf.Resource[Object] {
	return kopf.For(kopf.Unstructured(schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Database"})).
		On("add", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonResume}, inventory.add(team)).
		OnDelete("remove", inventory.remove(team))
}

// waitUntilReady waits until the engine calls handlers. It stops an operator that does not become ready.
func (o *operator) waitUntilReady(ctx context.Context, op *kopf.Operator) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	select {
	case <-o.started: // Readyz also succeeds for an operator that waits for the leadership
	case <-o.ended:
	case <-ctx.Done():
	}
	if err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		return o.hasEnded() || op.Readyz(nil) == nil, nil
	}); err != nil || o.hasEnded() {
		return errors.Join(err, o.shutDown())
	}
	return nil
}

// shutDown stops the operator, and returns when its running handlers have ended.
func (o *operator) shutDown() error {
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
