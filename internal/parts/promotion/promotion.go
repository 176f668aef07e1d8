package promotion

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// priority is the priority of promoted objects. Users' changes have priority 0.
const priority = 1

const (
	// pause is how often the promoter looks for objects that have waited too long.
	pause = time.Second
	// minAge is how long an object must have waited.
	minAge = 5 * time.Second
	// share is the divisor for the workers' time that promoted objects may use.
	share = 4
	// maxCandidates limits how many candidates are collected at once, because that is expensive.
	maxCandidates = 10_000
	// overhead is added to the duration of each reconcile, because even an empty one occupies a worker.
	overhead = 100 * time.Microsecond
)

// Keys are the queued keys. Their methods must be safe for concurrent use.
type Keys interface {
	// LongestQueued returns at most limit keys that have waited for at least minAge, the longest waiting first.
	LongestQueued(limit int, minAge time.Duration) []objectstate.QueuedKey
	// IsStillQueued reports whether no worker has taken the key from the queue since LongestQueued returned it.
	IsStillQueued(objectstate.QueuedKey) bool
}

// Promoter moves objects that have waited a long time to the front of the queue. It measures how long their reconciles take, so that they
// use at most about a quarter of the workers' time. At most a quarter of the workers, rounded up, handle them at once. It is safe for
// concurrent use.
//
// A Promoter is a controller's source, but doesn't create events.
type Promoter struct {
	keys   Keys
	onTick func()

	mu      sync.Mutex
	workers int
	queue   priorityqueue.PriorityQueue[reconcile.Request] // nil before the start, and for queues without priorities
	// candidates are the keys that have waited a long time, the longest waiting first.
	candidates []objectstate.QueuedKey
	// credit is how much of the workers' time promoted objects may still use. While it is negative, nothing is promoted.
	credit time.Duration
	// begun counts the reconciles that have started.
	begun int
	// promotions are the promoted objects whose reconcile has not finished.
	promotions map[types.NamespacedName]promotion
}

// New returns a promoter. Once started, it calls onTick every second.
func New(keys Keys, onTick func()) *Promoter { return &Promoter{keys: keys, onTick: onTick} }

type promotion struct {
	after   int       // how many reconciles had started before the promotion
	running time.Time // when the reconcile started; zero while the object is queued
}

// For sets the number of workers, and returns the source that their controller must watch.
func (p *Promoter) For(workers int) source.Source {
	p.workers = workers
	return p
}

func (*Promoter) String() string { return "promoter" }

// Start implements [source.Source].
func (p *Promoter) Start(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	if prioritized, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		p.mu.Lock()
		p.queue, p.promotions = prioritized, map[types.NamespacedName]promotion{}
		p.mu.Unlock()
	}
	go func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				p.onTick()
				p.promoteStarved()
			}
		}
	}()
	return nil
}

// promoteStarved looks for objects that have waited a long time, and promotes some of them.
func (p *Promoter) promoteStarved() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queue == nil {
		return // without priorities, objects don't starve
	}
	if len(p.candidates) == 0 {
		p.candidates = p.keys.LongestQueued(maxCandidates, minAge)
	}
	if len(p.candidates) == 0 {
		p.credit = 0 // unused credit is not saved up
	}
	p.promote()
}

// Begin records that a worker has started a reconcile.
func (p *Promoter) Begin(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun++
	if one, found := p.promotions[key]; found {
		one.running = time.Now()
		p.promotions[key] = one
	}
}

// IsPromoted reports whether the key being reconciled was promoted.
func (p *Promoter) IsPromoted(key types.NamespacedName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, found := p.promotions[key]
	return found
}

// End records that a worker has finished a reconcile, and promotes other objects.
func (p *Promoter) End(key types.NamespacedName, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queue == nil {
		return
	}
	took += overhead
	p.credit += took / share
	if _, found := p.promotions[key]; found {
		p.credit -= took
		delete(p.promotions, key)
	}
	p.promote()
}

// promote moves as many candidates to the front of the queue as the credit allows.
func (p *Promoter) promote() {
	var taken time.Duration // time used by promoted objects that are being reconciled
	for key, one := range p.promotions {
		switch {
		case !one.running.IsZero():
			taken += time.Since(one.running)
		case p.begun-one.after > 2*p.workers:
			delete(p.promotions, key) // the reconcile isn't starting, for example because the object is already being reconciled
		}
	}
	limit := (p.workers + share - 1) / share
	p.credit = min(p.credit, taken+time.Duration(limit)*pause)
	for len(p.promotions) < limit && p.credit >= taken && len(p.candidates) > 0 {
		next := p.candidates[0]
		p.candidates = p.candidates[1:]
		if _, found := p.promotions[next.NamespacedName]; found || !p.keys.IsStillQueued(next) {
			continue
		}
		p.promotions[next.NamespacedName] = promotion{after: p.begun}
		p.queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(priority)}, reconcile.Request{NamespacedName: next.NamespacedName})
	}
}
