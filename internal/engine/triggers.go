package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/tracking"
)

// Trigger makes the reconcile handlers of an object due, as a change of the object by another client does. It returns false if the informer has not
// delivered the object: its handlers are then called when the object appears.
func (e *Engine) Trigger(key types.NamespacedName) (known bool) {
	if e.states.Observed(key) == nil && e.gone.lastCalls.Get(key) == nil {
		return false
	}
	e.states.MarkRelatedChange(key)
	e.states.Enqueue(triggered, key)
	return true
}

// Triggered returns a source whose requests trigger reconcile handlers. Requests of the source itself would enqueue objects, but no handler
// would be due.
func (e *Engine) Triggered(src source.Source) source.SyncingSource { return &triggerSource{src, e} }

type triggerSource struct {
	source.Source
	engine *Engine
}

func (s *triggerSource) String() string { return fmt.Sprint(s.Source) }

// Start implements [source.Source].
func (s *triggerSource) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return guard.Call("the source of TriggerFrom", func() error { return s.Source.Start(ctx, &triggerQueue{queue, s.engine}) })
}

// WaitForSync implements [source.SyncingSource].
func (s *triggerSource) WaitForSync(ctx context.Context) error {
	if syncing, ok := s.Source.(source.SyncingSource); ok {
		return guard.Call("the source of TriggerFrom", func() error { return syncing.WaitForSync(ctx) })
	}
	return nil
}

// triggerQueue is the queue that the source of a [triggerSource] receives.
type triggerQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	engine *Engine
}

func (q *triggerQueue) Add(req reconcile.Request) { q.engine.Trigger(req.NamespacedName) }

// AddAfter triggers the handlers after the delay. If it marked the object before, an earlier reconcile would call the handlers.
func (q *triggerQueue) AddAfter(req reconcile.Request, delay time.Duration) {
	time.AfterFunc(delay, func() { q.Add(req) })
}

func (q *triggerQueue) AddRateLimited(req reconcile.Request) { q.Add(req) }

// forgetTracked removes the objects that the handlers of the object of a key track.
func (e *Engine) forgetTracked(key types.NamespacedName) {
	for _, id := range slices.Concat(e.ReconcileHandlers.IDs(), e.Handlers.IDs()) {
		e.tracker.Forget(tracking.Reader{Object: key, Handler: id})
	}
}

// BackgroundSource returns the source of the requests of the engine. The controller must watch it.
func (e *Engine) BackgroundSource() source.Source { return e.states.Source() }

// enqueue enqueues an object, if it exists.
func (e *Engine) enqueue(uid types.UID) {
	if obj := e.states.Newest(uid); obj != nil {
		e.states.Enqueue(0, client.ObjectKeyFromObject(obj))
	}
}
