package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// operator is one process of the operator: a manager with its own transport.
type operator struct {
	process int
	link    *link
	stop    context.CancelFunc
	ended   chan error
}

var lifecycles = map[string]progress.Lifecycle{
	"all": progress.AllAtOnce, "one by one": progress.OneByOne, "asap": progress.Asap,
	"shuffled": progress.Shuffled, "randomized": progress.Randomized,
}

// launch starts the next operator process.
func (w *world) launch(ctx context.Context) error {
	w.process++
	if err := w.expectResumption(ctx); err != nil {
		return err
	}
	o := &operator{process: w.process, ended: make(chan error, 1)}
	o.link = newLink(w, w.process)
	config := rest.CopyConfig(w.Config)
	config.Wrap(o.link.wrap)
	// With DefaultNamespaces, the cache would wrap each informer, and the goroutine of a wrapper never ends if the operator stops before the informer has synced.
	objects := cache.Options{DefaultFieldSelector: fields.OneTermEqualSelector("metadata.namespace", w.Namespace)}
	mgr, err := manager.New(config, manager.Options{
		Scheme:  w.scheme,
		Logger:  w.logger(o.process),
		Metrics: server.Options{BindAddress: "0"},
		Cache:   objects,
	})
	if err != nil {
		return fmt.Errorf("creating a manager: %w", err)
	}
	options := []kopf.Option{kopf.WithLifecycle(lifecycles[w.plan.Lifecycle]), kopf.WithCheckpoint(w.plan.Checkpoint)}
	if w.plan.Lean {
		options = append(options, kopf.WithLeanCaches(), kopf.WithKindCaches(objects))
	}
	err = kopf.SetupWithManager(mgr, append(options, w.plan.Kind.declare(handlerEnv{w, o}))...)
	if err != nil {
		return fmt.Errorf("setting up the operator: %w", err)
	}
	ctx, o.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		o.ended <- mgr.Start(ctx)
		mgr.GetHTTPClient().CloseIdleConnections()
	}()
	w.current = o
	w.logf("operator %d starts", o.process)
	return nil
}

// restart stops the operator as the action requires and starts it again after a pause.
func (w *world) restart(ctx context.Context, action Action, down time.Duration) error {
	o := w.current
	switch action {
	case Restart:
		w.logf("operator %d stops", o.process)
		o.stop()
		if err := <-o.ended; err != nil {
			return fmt.Errorf("stopping the operator: %w", err)
		}
	default:
		o.link.crash(ctx, action, 20*w.Tick)
		w.logf("operator %d has crashed", o.process)
		o.stop()
		w.former = append(w.former, o)
	}
	pause(ctx, down)
	return w.launch(ctx)
}

// end stops all operators and waits for them.
func (w *world) end() {
	if w.current != nil {
		w.current.stop()
		if err := <-w.current.ended; err != nil {
			w.violatef(Runs, "stopping the operator: %v", err)
		}
	}
	for _, o := range w.former {
		if err := <-o.ended; err != nil {
			w.logf("operator %d has ended with: %v", o.process, err) // the operator cannot reach the server
		}
	}
}

// logger returns a logger that writes into the journal. It omits values that are the same in every line.
func (w *world) logger(process int) logr.Logger {
	terse := func(pairs []any) (kept []any) {
		for i := 0; i+1 < len(pairs); i += 2 {
			switch pairs[i] {
			case "level", "controller", "kind", "namespace", "reconcileID", "uid", "stack", "source":
			default:
				kept = append(kept, pairs[i], pairs[i+1])
			}
		}
		return kept
	}
	return funcr.New(func(_, args string) { w.logf("(%d)   logs %s", process, args) }, funcr.Options{
		RenderBuiltinsHook: terse, RenderValuesHook: terse, RenderArgsHook: terse,
	})
}
