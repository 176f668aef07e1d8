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

// Priorities in the queue: what users change, before what is tried again, before what was listed at the
// start.
const (
	promoted = 1
	retrying = handler.LowPriority / 2
)

const (
	// promotionPause is how often it is checked whether objects have waited for long.
	promotionPause = time.Second
	// promotionAge is how long they have to have waited.
	promotionAge = 5 * time.Second
	// promotionShare is the part of the workers' time that they get: one in so many.
	promotionShare = 4
	// maxCandidates limits the objects that are remembered from one check: collecting them is what costs.
	maxCandidates = 10_000
	// passOverhead is added to what a pass has taken: a pass that takes no time at all costs something, too.
	passOverhead = 100 * time.Microsecond
)

// A promoter lets nothing starve: objects that have waited for long are put before all others, as long as that takes no more than a
// quarter of the workers' time. It limits how many of them are queued or handled at a time to a quarter of the workers, and
// it measures what they take: so the share follows from what the workers finish, and changes by users have the rest.
//
// It is a source without events of its own.
type promoter struct {
	mu      sync.Mutex
	engine  *Engine
	workers int
	queue   priorityqueue.PriorityQueue[reconcile.Request] // nil until it is started, and without priorities
	// candidates have waited for long, the first ones first.
	candidates []objectstate.QueuedKey
	// credit is how much of the workers' time is left for the next promotions; negative: they have to wait.
	credit time.Duration
	// begun counts reconciles.
	begun int
	// promotions are the objects that were promoted and not finished.
	promotions map[types.NamespacedName]promotion
}

type promotion struct {
	after   int       // so many reconciles
	running time.Time // since when; zero: it is queued
}

// Promoter is to be watched by the controller that has so many workers.
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
				p.engine.QueueStats() // for the metrics
				p.engine.eventLimiter.Sweep()
				p.collect()
			}
		}
	}()
	return nil
}

// collect looks for objects that have waited for long.
func (p *promoter) collect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queue == nil {
		return // without priorities, nothing is passed over
	}
	if len(p.candidates) == 0 {
		p.candidates = p.engine.states.LongestQueued(maxCandidates, promotionAge)
	}
	if len(p.candidates) == 0 {
		p.credit = 0 // what is not used is not saved up
	}
	p.promote()
}

// begin records that a worker has begun with an object.
func (p *promoter) begin(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun++
	if one, found := p.promotions[key]; found {
		one.running = time.Now()
		p.promotions[key] = one
	}
}

// end records that a worker has finished with an object, and promotes others.
func (p *promoter) end(key types.NamespacedName, took time.Duration) {
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

// promote puts candidates before all others, as far as the share goes.
func (p *promoter) promote() {
	var taken time.Duration // by those that run
	for key, one := range p.promotions {
		switch {
		case !one.running.IsZero():
			taken += time.Since(one.running)
		case p.begun-one.after > 2*p.workers:
			delete(p.promotions, key) // it does not come to a reconcile: its object is busy, or something around the reconciler keeps it
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
