package eventrecorder

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Each object has a token bucket, which permits a burst and one more Event in each interval. The bucket allows 28 Events in any
// hour. Two Events cause at most three writes, because the recorder also writes the counts and the ends of series.
// With two refreshes of series per hour, there are fewer than 60 writes per hour.
const (
	maxBurst       = 16
	refillInterval = 5 * time.Minute
	// urgentReserve is the part of the burst that only urgent Events may use.
	urgentReserve = 4
	// seriesWindow is the time after an Event in which the recorder adds an equal Event to its series.
	seriesWindow = 6 * time.Minute
	// minSeriesInterval is the shortest time between two Events of a series. All objects share the queue of the recorder.
	minSeriesInterval = time.Second
)

// sweepInterval is the shortest time between two sweeps.
const sweepInterval = time.Minute

// Limiter limits the Events about each object separately. The zero value is ready for use. A Limiter is safe for concurrent use.
type Limiter struct {
	// AggregatesSeries is true if the recorder counts repeated Events as a series instead of writing each of them.
	AggregatesSeries bool

	mu      sync.Mutex
	objects map[types.UID]*budget
	swept   time.Time
}

// SeriesKey contains the fields of an Event that are equal in all Events of a series.
type SeriesKey struct {
	Type, Reason, Action string
	ResourceVersion      string // the version of the object
}

// budget is the token bucket of one object.
type budget struct {
	remaining  float64 // Events that may be posted, as of updatedAt
	updatedAt  time.Time
	lastEvent  SeriesKey // the last posted Event
	repeats    int       // number of posts of lastEvent
	lastPosted time.Time
	dropped    int // Events that were not posted since lastPosted
}

// Allow reports whether an Event about an object may be posted. dropped is the number of Events that were dropped since the last posted Event. A part
// of the budget is reserved for urgent Events.
func (l *Limiter) Allow(uid types.UID, event SeriesKey, urgent bool) (dropped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	b := l.budget(uid, now)
	if l.isAggregated(b, event, now) {
		ok = now.Sub(b.lastPosted) >= minSeriesInterval
	} else {
		ok = b.spend(now, urgent)
	}
	if !ok {
		b.dropped++
		return b.dropped, false
	}
	if b.lastEvent != event {
		b.lastEvent, b.repeats = event, 0
	}
	b.repeats++
	b.lastPosted = now
	dropped, b.dropped = b.dropped, 0
	return dropped, true
}

// Forget removes the budget of a deleted object.
func (l *Limiter) Forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.objects, uid)
}

// Len returns the number of objects with a budget.
func (l *Limiter) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.objects)
}

// isAggregated reports whether the recorder adds the Event to a series without a write. It writes the first two Events of a series.
func (l *Limiter) isAggregated(b *budget, event SeriesKey, now time.Time) bool {
	return l.AggregatesSeries && b.lastEvent == event && b.repeats >= 2 && now.Sub(b.lastPosted) < seriesWindow
}

func (b *budget) spend(now time.Time, urgent bool) bool {
	b.remaining, b.updatedAt = b.available(now), now
	need := 1.0
	if !urgent {
		need += urgentReserve
	}
	if b.remaining < need {
		return false
	}
	b.remaining--
	return true
}

func (b *budget) available(now time.Time) float64 {
	return min(maxBurst, b.remaining+float64(now.Sub(b.updatedAt))/float64(refillInterval))
}

// budget returns the budget of an object, and creates it on first use.
func (l *Limiter) budget(uid types.UID, now time.Time) *budget {
	l.sweep(now)
	if b, known := l.objects[uid]; known {
		return b
	}
	if l.objects == nil {
		l.objects = map[types.UID]*budget{}
	}
	b := &budget{remaining: maxBurst, updatedAt: now}
	l.objects[uid] = b
	return b
}

// Sweep removes full budgets of objects without an active series. Call it regularly, because an object may exist for a long time without another
// Event. More than one call per minute has no effect.
func (l *Limiter) Sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(time.Now())
}

func (l *Limiter) sweep(now time.Time) {
	if now.Sub(l.swept) < sweepInterval {
		return
	}
	l.swept = now
	before := len(l.objects)
	for uid, b := range l.objects {
		if b.available(now) >= maxBurst && now.Sub(b.lastPosted) >= seriesWindow {
			delete(l.objects, uid)
		}
	}
	if len(l.objects) < before/2 {
		l.objects = maps.Clone(l.objects) // a map keeps the memory of deleted entries
	}
}
