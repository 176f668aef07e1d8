package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// The priorities in the queue. Changes by users have priority 0, objects of the first listing have [handler.LowPriority], and promoted objects have 1.
const (
	triggered = -1                      // by related objects
	retrying  = handler.LowPriority / 2 // after a delay
)

// Trigger makes the reconcile handlers of an object due, as a change of the object by another client does. It returns false if the informer has not
// delivered the object: its handlers are then called when the object appears.
func (e *Engine) Trigger(key types.NamespacedName) (known bool) {
	if e.states.Observed(key) == nil {
		return false
	}
	e.states.MarkRelatedChange(key)
	e.states.MarkQueued(key)
	e.enqueuer.add(key)
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
	return s.Source.Start(ctx, &triggerQueue{queue, s.engine})
}

// WaitForSync implements [source.SyncingSource].
func (s *triggerSource) WaitForSync(ctx context.Context) error {
	if syncing, ok := s.Source.(source.SyncingSource); ok {
		return syncing.WaitForSync(ctx)
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

// add enqueues a key with a priority below those of changes by users: one related object may trigger thousands of others.
func (w *enqueuer) add(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	req := reconcile.Request{NamespacedName: key}
	switch queue := w.queue.(type) {
	case nil: // the controller has not started: it will reconcile all objects
	case priorityqueue.PriorityQueue[reconcile.Request]:
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(triggered)}, req)
	default:
		queue.Add(req)
	}
}

// enqueuer is a source without events of its own. The engine enqueues objects with it, for example when a daemon has ended or a related object has changed.
type enqueuer struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// BackgroundSource returns the source of the requests of the engine. The controller must watch it.
func (e *Engine) BackgroundSource() source.Source { return &e.enqueuer }

func (*enqueuer) String() string { return "background" }

// Start implements [source.Source].
func (w *enqueuer) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = queue
	return nil
}

// enqueue enqueues an object, if it exists.
func (e *Engine) enqueue(uid types.UID) {
	obj := e.states.Newest(uid)
	e.enqueuer.mu.Lock()
	defer e.enqueuer.mu.Unlock()
	if obj != nil && e.enqueuer.queue != nil {
		key := client.ObjectKeyFromObject(obj)
		e.states.MarkQueued(key)
		e.enqueuer.queue.Add(reconcile.Request{NamespacedName: key})
	}
}
