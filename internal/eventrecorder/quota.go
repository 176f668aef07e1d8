package eventrecorder

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// What may be posted about one object: some Events at once, and one more after each pause. That is 28 in any hour, whatever happens. Each two
// of them are three writes at most, as the recorder also writes counts and the ends of series, and it refreshes series twice an hour: that is
// below 60 writes.
const (
	maxBurst       = 16
	refillInterval = 5 * time.Minute
	// reserve is what is left for Events that are urgent.
	urgentReserve = 4
	// series is how long the recorder goes on counting what repeats.
	seriesWindow = 6 * time.Minute
	// breath is the least time between two that are only counted: the recorder's queue is for all objects.
	minSeriesInterval = time.Second
)

// sweepPause is the least time between two searches for objects that need not be remembered.
const sweepInterval = time.Minute

// A Quota bounds the Events about each object: one about which much is posted takes nothing from others. The zero value is ready for use, by
// many goroutines at once.
type Limiter struct {
	// Counted: the recorder counts what repeats, instead of writing it once more.
	AggregatesSeries bool

	mu      sync.Mutex
	objects map[types.UID]*budget
	swept   time.Time
}

// An Event is what makes two Events one to the recorder.
type SeriesKey struct {
	Type, Reason, Action string
	ResourceVersion      string // of the object
}

// An account is what was posted about one object.
type budget struct {
	remaining  float64 // Events, as of then
	updatedAt  time.Time
	lastEvent  SeriesKey // that was posted
	repeats    int       // of it
	lastPosted time.Time
	dropped    int
}

// Take asks to post an Event about an object. If it may be, unsaid is the number of those that could not be posted since the last one that could.
// Events that are urgent are those that few are of: the others leave some for them.
func (q *Limiter) Allow(uid types.UID, event SeriesKey, urgent bool) (unsaid int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := time.Now()
	a := q.budget(uid, at)
	if q.isAggregated(a, event, at) {
		ok = at.Sub(a.lastPosted) >= minSeriesInterval
	} else {
		ok = a.spend(at, urgent)
	}
	if !ok {
		a.dropped++
		return a.dropped, false
	}
	if a.lastEvent != event {
		a.lastEvent, a.repeats = event, 0
	}
	a.repeats++
	a.lastPosted = at
	unsaid, a.dropped = a.dropped, 0
	return unsaid, true
}

// Forget drops what is known of an object that is gone.
func (q *Limiter) Forget(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.objects, uid)
}

// Len is the number of objects that are known.
func (q *Limiter) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.objects)
}

// isCounted reports whether the recorder makes one more of a series of it, which is no write. The first two of a series are.
func (q *Limiter) isAggregated(a *budget, event SeriesKey, at time.Time) bool {
	return q.AggregatesSeries && a.lastEvent == event && a.repeats >= 2 && at.Sub(a.lastPosted) < seriesWindow
}

func (a *budget) spend(at time.Time, urgent bool) bool {
	a.remaining, a.updatedAt = a.available(at), at
	need := 1.0
	if !urgent {
		need += urgentReserve
	}
	if a.remaining < need {
		return false
	}
	a.remaining--
	return true
}

func (a *budget) available(at time.Time) float64 {
	return min(maxBurst, a.remaining+float64(at.Sub(a.updatedAt))/float64(refillInterval))
}

// account is that of an object.
func (q *Limiter) budget(uid types.UID, at time.Time) *budget {
	q.sweep(at)
	if a, known := q.objects[uid]; known {
		return a
	}
	if q.objects == nil {
		q.objects = map[types.UID]*budget{}
	}
	a := &budget{remaining: maxBurst, updatedAt: at}
	q.objects[uid] = a
	return a
}

// Sweep drops what is known of objects that have their whole quota again, and of which the recorder counts nothing: that is as good as
// nothing. It is to be called from time to time, as objects may live on without another Event; more often than once a minute, it does nothing.
func (q *Limiter) Sweep() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sweep(time.Now())
}

func (q *Limiter) sweep(at time.Time) {
	if at.Sub(q.swept) < sweepInterval {
		return
	}
	q.swept = at
	before := len(q.objects)
	for uid, a := range q.objects {
		if a.available(at) >= maxBurst && at.Sub(a.lastPosted) >= seriesWindow {
			delete(q.objects, uid)
		}
	}
	if len(q.objects) < before/2 {
		q.objects = maps.Clone(q.objects) // a map keeps the room of what was deleted
	}
}
