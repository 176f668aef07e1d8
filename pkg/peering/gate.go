package peering

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// pollPaused is how often a request comes back during a pause if the gate is not a source of its controller.
const pollPaused = 5 * time.Second

// A Gate is a reconciler that does not call another one while the operator is paused in the namespace of the request.
// Requests are not lost: each comes again, once, after the pause.
//
// For that, the gate is a source of requests as well. A controller that does not have it as a source is served too:
// its requests come back every five seconds until the pause is over.
type Gate struct {
	peering *Peering
	next    reconcile.Reconciler

	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request] // nil: the gate is no source
	waiting map[reconcile.Request]struct{}
}

var (
	_ reconcile.Reconciler = (*Gate)(nil)
	_ source.Source        = (*Gate)(nil)
)

// Gate puts a gate before a reconciler:
//
//	gate := p.Gate(reconciler)
//	ctrl.NewControllerManagedBy(mgr).For(&v1.Database{}).WatchesRawSource(gate).Complete(gate)
//
// What the reconciler has begun goes on when a pause begins.
func (p *Peering) Gate(next reconcile.Reconciler) *Gate {
	return &Gate{peering: p, next: next, waiting: map[reconcile.Request]struct{}{}}
}

// Reconcile calls the reconciler behind the gate, or takes note of the request.
func (g *Gate) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if paused, noted := g.hold(request); paused {
		if noted {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{RequeueAfter: pollPaused}, nil
	}
	return g.next.Reconcile(ctx, request)
}

// hold asks and takes note in one step: a pause that ends meanwhile finds the request.
func (g *Gate) hold(request reconcile.Request) (paused, noted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if paused, _ := g.peering.Paused(request.Namespace); !paused {
		return false, false
	}
	if g.queue == nil {
		return true, false
	}
	g.waiting[request] = struct{}{}
	return true, true
}

// Start makes the gate a source of the queue: of the requests that wait for the end of a pause. The controller
// calls it.
func (g *Gate) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue = queue
	cancel := g.peering.Subscribe(func(Transition) { g.release() })
	context.AfterFunc(ctx, cancel)
	return nil
}

func (g *Gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for request := range g.waiting {
		if paused, _ := g.peering.Paused(request.Namespace); !paused {
			delete(g.waiting, request)
			g.queue.Add(request)
		}
	}
}
