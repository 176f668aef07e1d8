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

// Each object has a token bucket, which permits a burst and then one more Event per interval. With the defaults, this is at most 32 Events
// per hour.
const (
	// DefaultBurst is the default of [Limiter.Burst]. Normal Events get three fifths of it, which is a little more than the 25 of
	// client-go's recorder. Operators that post an Event for each of many children need them.
	DefaultBurst = 50
	// DefaultInterval is the default of [Limiter.Interval].
	DefaultInterval = 5 * time.Minute
	// reserves is how many reserves fit into the burst.
	reserves = 5
	// seriesWindow is how long the recorder surely adds an equal Event to a series after the last one.
	seriesWindow = 6 * time.Minute
	// recorderMemory is how long the recorder may still do so: it looks for ended series only once per window.
	recorderMemory = 2 * seriesWindow
	// minSeriesInterval is the shortest time between two Events that the recorder only counts. It is needed because all objects share the
	// recorder's queue.
	minSeriesInterval = time.Second
)

// sweepInterval is the shortest time between two sweeps.
const sweepInterval = time.Minute

// Priority decides how much of an object's budget an Event may use.
type Priority int

// The priorities.
const (
	// Detail is for handlers' Normal Events, and for automatic Events about single attempts. They leave two reserves.
	Detail Priority = iota
	// Problem is for handlers' Warnings. They leave one reserve.
	Problem
	// Transition is for automatic Events about failures, recoveries, and problems of the engine. They may use the whole budget.
	Transition
)

// Limiter limits the Events about each object separately. It is safe for concurrent use, but its fields must not change after the first
// use.
type Limiter struct {
	// Burst is how many Events about an object may be posted at once. A fifth of it is reserved for each of the higher priorities. Default:
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

// SeriesKey holds the fields that are equal in all Events of a series.
type SeriesKey struct {
	Type, Reason, Action string
	ResourceVersion      string    // the object's version
	Related              types.UID // the handled object if the Event is about a different one
}

// A Permit allows posting an Event.
type Permit struct {
	// Dropped is how many Events about the object were dropped since the last new Event. It is 0 for a repeated Event, because its note
	// isn't written.
	Dropped int
	// Variant is 1 for the first Event with its key, 2 for the first one with a different note, and so on. If the recorder doesn't
	// aggregate series, it is always 1.
	Variant int
}

// budget is the token bucket of one object.
type budget struct {
	remaining  float64 // how many Events may be posted, as of updatedAt
	updatedAt  time.Time
	series     []series // Events that the recorder remembers
	lastPosted time.Time
	dropped    int  // Events dropped since the last new Event
	reported   bool // whether a drop was reported
}

// A series is an Event that the recorder remembers.
type series struct {
	key, note  uint64 // hashes
	variant    int
	repeats    int // how often it was posted
	lastPosted time.Time
}

var seed = maphash.MakeSeed()

// Allow returns a permit if an Event about an object may be posted. If not, first says whether this is the first Event to be dropped since
// the object's budget was full. A repeated Event that comes too soon to be counted is dropped as well, but first is false for it.
func (l *Limiter) Allow(uid types.UID, event SeriesKey, note string, priority Priority) (permit Permit, ok, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	b := l.budget(uid, now)
	s := b.find(event, note, now)
	// The recorder writes the first two Events of a series, and only counts the others.
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

// Len returns how many objects have a budget.
func (l *Limiter) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.objects)
}

// find returns an Event's series. If the recorder doesn't remember the Event, find returns a new series with the key's next variant. It
// forgets the series that the recorder has forgotten.
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

// budget returns an object's budget, which it creates on first use.
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

// Sweep removes full budgets of objects whose Events the recorder no longer remembers. Call it regularly, because an object may exist for a
// long time without a new Event. More than one call per minute has no effect.
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
