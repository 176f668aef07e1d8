package peering

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// pollPaused is how often a gate that isn't a source of its controller retries requests during a pause.
const pollPaused = 5 * time.Second

// Gate is a reconciler that defers requests while the operator is paused in their namespace. After the pause, it passes each of them once
// to the next reconciler.
//
// A Gate is also a source of requests. If the controller uses it as one, deferred requests continue immediately after the pause. Otherwise
// the Gate retries them every five seconds.
type Gate struct {
	peering *Peering
	next    reconcile.Reconciler

	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request] // queue of the controller; nil if the gate isn't a source
	waiting map[reconcile.Request]struct{}
}

var (
	_ reconcile.Reconciler = (*Gate)(nil)
	_ source.Source        = (*Gate)(nil)
)

// Gate returns a gate for a reconciler:
//
//	gate := p.Gate(reconciler)
//	ctrl.NewControllerManagedBy(mgr).For(&v1.Database{}).WatchesRawSource(gate).Complete(gate)
//
// Running reconciles continue when a pause starts.
func (p *Peering) Gate(next reconcile.Reconciler) *Gate {
	return &Gate{peering: p, next: next, waiting: map[reconcile.Request]struct{}{}}
}

// Reconcile calls the next reconciler, or defers the request during a pause.
func (g *Gate) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if paused, deferred := g.deferIfPaused(request); paused {
		if deferred {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{RequeueAfter: pollPaused}, nil
	}
	return g.next.Reconcile(ctx, request)
}

// deferIfPaused checks for a pause and defers the request under one lock. Otherwise a pause that ends in between would miss the request.
func (g *Gate) deferIfPaused(request reconcile.Request) (paused, deferred bool) {
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

// Start implements source.Source. The controller calls it.
func (g *Gate) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue = queue
	cancel := g.peering.Subscribe(func(Transition) { g.requeueWaiting() })
	context.AfterFunc(ctx, cancel)
	return nil
}

func (g *Gate) requeueWaiting() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for request := range g.waiting {
		if paused, _ := g.peering.Paused(request.Namespace); !paused {
			delete(g.waiting, request)
			g.queue.Add(request)
		}
	}
}
