package engine

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// A waker is a source without events of its own: what has come to an end in the background brings its object
// back to the workers.
type enqueuer struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Waker is to be watched by the controller.
func (e *Engine) BackgroundSource() source.Source { return &e.enqueuer }

func (*enqueuer) String() string { return "background" }

// Start implements [source.Source].
func (w *enqueuer) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = queue
	return nil
}

// wake has an object looked at, if it is still there.
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
