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
	"github.com/kopf-runtime/kopf-runtime/internal/parts/tracking"
)

// Trigger makes an object's reconcile handlers due, as if another client had changed the object. It returns false if the informer hasn't
// delivered the object. Its handlers are then called when it appears.
func (e *Engine) Trigger(key types.NamespacedName) (known bool) {
	if e.states.Observed(key) == nil && e.gone.lastCalls.Get(key) == nil {
		return false
	}
	e.states.MarkRelatedChange(key)
	e.states.Enqueue(triggered, key)
	return true
}

// Triggered wraps a source so that its requests trigger reconcile handlers. On its own, the source would enqueue objects, but no handler
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

// triggerQueue is the queue that a wrapped source receives.
type triggerQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	engine *Engine
}

func (q *triggerQueue) Add(req reconcile.Request) { q.engine.Trigger(req.NamespacedName) }

// AddAfter triggers the handlers after the delay. Marking the object right away would let an earlier reconcile call them.
func (q *triggerQueue) AddAfter(req reconcile.Request, delay time.Duration) {
	time.AfterFunc(delay, func() { q.Add(req) })
}

func (q *triggerQueue) AddRateLimited(req reconcile.Request) { q.Add(req) }

// forgetTracked forgets the objects that the handlers of a key's object track.
func (e *Engine) forgetTracked(key types.NamespacedName) {
	for _, id := range slices.Concat(e.ReconcileHandlers.IDs(), e.Handlers.IDs()) {
		e.tracker.Forget(tracking.Reader{Object: key, Handler: id})
	}
}

// BackgroundSource returns the source of the engine's own requests. The controller must watch it.
func (e *Engine) BackgroundSource() source.Source { return e.states.Source() }

// enqueue enqueues an object if the engine knows it.
func (e *Engine) enqueue(uid types.UID) {
	if obj := e.states.Newest(uid); obj != nil {
		e.states.Enqueue(0, client.ObjectKeyFromObject(obj))
	}
}
