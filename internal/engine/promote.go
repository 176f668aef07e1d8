package engine

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// The priorities in the queue. Changes by users have priority 0, objects of the first listing have [handler.LowPriority].
const (
	promoted  = 1
	triggered = -1                      // by related objects
	retrying  = handler.LowPriority / 2 // after a delay
)

const (
	// promotionPause is the interval of the checks for objects that have waited for long.
	promotionPause = time.Second
	// promotionAge is the time that an object must have waited.
	promotionAge = 5 * time.Second
	// promotionShare is the divisor for the time of the workers that promoted objects may use.
	promotionShare = 4
	// maxCandidates limits the candidates of one check, because collecting them is expensive.
	maxCandidates = 10_000
	// passOverhead is added to the duration of each reconcile, because even an empty one uses a worker.
	passOverhead = 100 * time.Microsecond
)

// promoter prevents starvation in the priority queue: it moves objects that have waited for long to the front, as long as they use no more than a
// quarter of the time of the workers. It limits the number of promoted objects to a quarter of the workers, and it measures how long they take.
//
// It is a source without events of its own.
type promoter struct {
	mu      sync.Mutex
	engine  *Engine
	workers int
	queue   priorityqueue.PriorityQueue[reconcile.Request] // nil before the start, and for queues without priorities
	// candidates are the objects that have waited for long, in the order of their times.
	candidates []objectstate.QueuedKey
	// credit is the time of the workers that is left for promoted objects. If it is negative, promotions wait.
	credit time.Duration
	// begun is the number of reconciles that have begun.
	begun int
	// promotions are the promoted objects whose reconcile has not ended.
	promotions map[types.NamespacedName]promotion
}

type promotion struct {
	after   int       // the number of reconciles before the promotion
	running time.Time // the begin of the reconcile; zero while the object is queued
}

// Promoter returns the source that a controller with the given number of workers must watch.
func (e *Engine) Promoter(workers int) source.Source {
	e.promoter.engine, e.promoter.workers = e, workers
	return &e.promoter
}

func (*promoter) String() string { return "promoter" }

// Start implements [source.Source].
func (p *promoter) Start(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	if prioritized, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		p.mu.Lock()
		p.queue, p.promotions = prioritized, map[types.NamespacedName]promotion{}
		p.mu.Unlock()
	}
	go func() {
		tick := time.NewTicker(promotionPause)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				p.engine.QueueStats() // updates the metrics
				p.engine.eventLimiter.Sweep()
				p.promoteStarved()
			}
		}
	}()
	return nil
}

// promoteStarved finds objects that have waited for long.
func (p *promoter) promoteStarved() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queue == nil {
		return // without priorities, no object starves
	}
	if len(p.candidates) == 0 {
		p.candidates = p.engine.states.LongestQueued(maxCandidates, promotionAge)
	}
	if len(p.candidates) == 0 {
		p.credit = 0 // unused credit is not saved
	}
	p.promote()
}

// reconcileBegun records that a worker has begun a reconcile.
func (p *promoter) reconcileBegun(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun++
	if one, found := p.promotions[key]; found {
		one.running = time.Now()
		p.promotions[key] = one
	}
}

// reconcileEnded records that a worker has finished a reconcile, and promotes other objects.
func (p *promoter) reconcileEnded(key types.NamespacedName, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queue == nil {
		return
	}
	took += passOverhead
	p.credit += took / promotionShare
	if _, found := p.promotions[key]; found {
		p.credit -= took
		delete(p.promotions, key)
	}
	p.promote()
}

// promote moves candidates to the front of the queue, as far as the credit allows.
func (p *promoter) promote() {
	var taken time.Duration // the time of the promoted objects that are being reconciled
	for key, one := range p.promotions {
		switch {
		case !one.running.IsZero():
			taken += time.Since(one.running)
		case p.begun-one.after > 2*p.workers:
			delete(p.promotions, key) // the reconcile does not begin, for example because the object is already being reconciled
		}
	}
	limit := (p.workers + promotionShare - 1) / promotionShare
	p.credit = min(p.credit, taken+time.Duration(limit)*promotionPause)
	for len(p.promotions) < limit && p.credit >= taken && len(p.candidates) > 0 {
		next := p.candidates[0]
		p.candidates = p.candidates[1:]
		if _, found := p.promotions[next.NamespacedName]; found || !p.engine.states.IsStillQueued(next) {
			continue
		}
		p.promotions[next.NamespacedName] = promotion{after: p.begun}
		p.queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(promoted)}, reconcile.Request{NamespacedName: next.NamespacedName})
	}
}
