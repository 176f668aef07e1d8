package eventrecorder

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Each object has a token bucket, which permits a burst and one more Event in each interval. With the defaults, the bucket allows 32 Events in any
// hour.
const (
	// DefaultBurst is the default of [Limiter.Burst]. Normal Events get three fifths of it, which is a little more than the 25 of the recorder of client-go: operators
	// that post an Event for each of many children need them.
	DefaultBurst = 50
	// DefaultInterval is the default of [Limiter.Interval].
	DefaultInterval = 5 * time.Minute
	// reserves is the number of times that a reserve fits into the burst.
	reserves = 5
	// seriesWindow is the time after an Event in which the recorder surely adds an equal Event to its series.
	seriesWindow = 6 * time.Minute
	// recorderMemory is the time after an Event in which the recorder may still add an equal Event to its series: it looks for ended series once in
	// each window.
	recorderMemory = 2 * seriesWindow
	// minSeriesInterval is the shortest time between two Events that the recorder only counts. All objects share the queue of the recorder.
	minSeriesInterval = time.Second
)

// sweepInterval is the shortest time between two sweeps.
const sweepInterval = time.Minute

// Priority decides which part of the budget of an object an Event may use.
type Priority int

// The priorities.
const (
	// Detail is for Normal Events of handlers, and for automatic Events about single attempts. They leave two reserves.
	Detail Priority = iota
	// Problem is for Warnings of handlers. They leave one reserve.
	Problem
	// Transition is for automatic Events about failures, recoveries, and problems of the engine. They may use the whole budget.
	Transition
)

// Limiter limits the Events about each object separately. Its fields must not change after the first use. A Limiter is safe for concurrent use.
type Limiter struct {
	// Burst is the number of Events about an object that may be posted at once. A fifth of it is reserved for each of the higher priorities. Default:
	// DefaultBurst.
	Burst int
	// Interval is the time after which one more Event may be posted. Default: DefaultInterval.
	Interval time.Duration
	// AggregatesSeries is true if the recorder counts repeated Events as a series instead of writing each of them.
	AggregatesSeries bool

	mu      sync.Mutex
	objects map[types.UID]*budget
	swept   time.Time
}

// SeriesKey contains the fields of an Event that are equal in all Events of a series.
type SeriesKey struct {
	Type, Reason, Action string
	ResourceVersion      string    // the version of the object
	Related              types.UID // the handled object if the Event is about another object
}

// A Permit is the permission to post an Event.
type Permit struct {
	// Dropped is the number of Events about the object that were dropped since the last new Event. It is 0 for a repeated Event, whose note is not written.
	Dropped int
	// Variant is 1 for the first Event with its key, 2 for the first one with another note, and so on. It is always 1 for a recorder without series.
	Variant int
}

// budget is the token bucket of one object.
type budget struct {
	remaining  float64 // Events that may be posted, as of updatedAt
	updatedAt  time.Time
	series     []series // the Events that the recorder remembers
	lastPosted time.Time
	dropped    int  // Events that were not posted since the last new Event
	reported   bool // whether a drop was reported
}

// A series is an Event that the recorder remembers.
type series struct {
	key, note  uint64 // hashes of the key and of the note
	variant    int
	repeats    int // number of posts
	lastPosted time.Time
}

// seed is the seed of the hashes of keys and notes.
var seed = maphash.MakeSeed()

// Allow returns a permit if an Event about an object may be posted. Otherwise, first is true for the first dropped Event of the object since its budget
// was full. The other dropped Events include repeated ones that come too fast to be counted.
func (l *Limiter) Allow(uid types.UID, event SeriesKey, note string, priority Priority) (permit Permit, ok, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	b := l.budget(uid, now)
	s := b.find(event, note, now)
	// The recorder writes the first two Events of a series, and counts the others.
	isCounted := l.AggregatesSeries && s.repeats >= 2 && now.Sub(s.lastPosted) < seriesWindow
	if isCounted {
		ok = now.Sub(b.lastPosted) >= minSeriesInterval
	} else {
		ok = l.spend(b, now, priority)
	}
	if !ok {
		b.dropped++
		if !isCounted && !b.reported {
			b.reported, first = true, true
		}
		return Permit{}, false, first
	}
	permit = Permit{Variant: s.variant}
	if s.repeats == 0 {
		permit.Dropped, b.dropped = b.dropped, 0
	}
	s.repeats++
	s.lastPosted, b.lastPosted = now, now
	if l.AggregatesSeries {
		b.remember(s)
	}
	return permit, true, false
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

// find returns the series of an Event. For an Event that the recorder does not remember, it returns a new series, with the next variant of the key. It forgets
// the series that the recorder does not remember any more.
func (b *budget) find(event SeriesKey, note string, now time.Time) series {
	b.series = slices.DeleteFunc(b.series, func(s series) bool { return now.Sub(s.lastPosted) >= recorderMemory })
	found := series{key: maphash.Comparable(seed, event), note: maphash.String(seed, note), variant: 1}
	for _, s := range b.series {
		switch {
		case s.key != found.key:
		case s.note == found.note:
			return s
		default:
			found.variant = max(found.variant, s.variant+1)
		}
	}
	return found
}

// remember adds or replaces a series.
func (b *budget) remember(s series) {
	i := slices.IndexFunc(b.series, func(other series) bool { return other.key == s.key && other.note == s.note })
	if i < 0 {
		b.series = append(b.series, s)
	} else {
		b.series[i] = s
	}
}

func (l *Limiter) burst() int              { return cmp.Or(l.Burst, DefaultBurst) }
func (l *Limiter) interval() time.Duration { return cmp.Or(l.Interval, DefaultInterval) }

func (l *Limiter) spend(b *budget, now time.Time, priority Priority) bool {
	b.remaining, b.updatedAt = l.available(b, now), now
	reserved := l.burst() / reserves * int(Transition-priority)
	if b.remaining < float64(1+reserved) {
		return false
	}
	b.remaining--
	return true
}

func (l *Limiter) available(b *budget, now time.Time) float64 {
	return min(float64(l.burst()), b.remaining+float64(now.Sub(b.updatedAt))/float64(l.interval()))
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
	b := &budget{remaining: float64(l.burst()), updatedAt: now}
	l.objects[uid] = b
	return b
}

// Sweep removes the full budgets of objects whose Events the recorder does not remember. Call it regularly, because an object may exist for a long time
// without another Event. More than one call per minute has no effect.
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
		if l.available(b, now) >= float64(l.burst()) && (!l.AggregatesSeries || now.Sub(b.lastPosted) >= recorderMemory) {
			delete(l.objects, uid)
		}
	}
	if len(l.objects) < before/2 {
		l.objects = maps.Clone(l.objects) // a map keeps the memory of deleted entries
	}
}
