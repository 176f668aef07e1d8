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
	burst = 16
	pause = 5 * time.Minute
	// reserve is what is left for Events that are urgent.
	reserve = 4
	// series is how long the recorder goes on counting what repeats.
	series = 6 * time.Minute
	// breath is the least time between two that are only counted: the recorder's queue is for all objects.
	breath = time.Second
)

// sweepPause is the least time between two searches for objects that need not be remembered.
const sweepPause = time.Minute

// A Quota bounds the Events about each object: one about which much is posted takes nothing from others. The zero value is ready for use, by
// many goroutines at once.
type Quota struct {
	// Counted: the recorder counts what repeats, instead of writing it once more.
	Counted bool

	mu      sync.Mutex
	objects map[types.UID]*account
	swept   time.Time
}

// An Event is what makes two Events one to the recorder.
type Event struct {
	Type, Reason, Action string
	Version              string // of the object
}

// An account is what was posted about one object.
type account struct {
	left    float64 // Events, as of then
	then    time.Time
	last    Event // that was posted
	repeats int   // of it
	latest  time.Time
	unsaid  int
}

// Take asks to post an Event about an object. If it may be, unsaid is the number of those that could not be posted since the last one that could.
// Events that are urgent are those that few are of: the others leave some for them.
func (q *Quota) Take(uid types.UID, event Event, urgent bool) (unsaid int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := time.Now()
	a := q.account(uid, at)
	if q.isCounted(a, event, at) {
		ok = at.Sub(a.latest) >= breath
	} else {
		ok = a.spend(at, urgent)
	}
	if !ok {
		a.unsaid++
		return a.unsaid, false
	}
	if a.last != event {
		a.last, a.repeats = event, 0
	}
	a.repeats++
	a.latest = at
	unsaid, a.unsaid = a.unsaid, 0
	return unsaid, true
}

// Forget drops what is known of an object that is gone.
func (q *Quota) Forget(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.objects, uid)
}

// Len is the number of objects that are known.
func (q *Quota) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.objects)
}

// isCounted reports whether the recorder makes one more of a series of it, which is no write. The first two of a series are.
func (q *Quota) isCounted(a *account, event Event, at time.Time) bool {
	return q.Counted && a.last == event && a.repeats >= 2 && at.Sub(a.latest) < series
}

func (a *account) spend(at time.Time, urgent bool) bool {
	a.left, a.then = a.balance(at), at
	need := 1.0
	if !urgent {
		need += reserve
	}
	if a.left < need {
		return false
	}
	a.left--
	return true
}

func (a *account) balance(at time.Time) float64 {
	return min(burst, a.left+float64(at.Sub(a.then))/float64(pause))
}

// account is that of an object.
func (q *Quota) account(uid types.UID, at time.Time) *account {
	q.sweep(at)
	if a, known := q.objects[uid]; known {
		return a
	}
	if q.objects == nil {
		q.objects = map[types.UID]*account{}
	}
	a := &account{left: burst, then: at}
	q.objects[uid] = a
	return a
}

// Sweep drops what is known of objects that have their whole quota again, and of which the recorder counts nothing: that is as good as
// nothing. It is to be called from time to time, as objects may live on without another Event; more often than once a minute, it does nothing.
func (q *Quota) Sweep() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sweep(time.Now())
}

func (q *Quota) sweep(at time.Time) {
	if at.Sub(q.swept) < sweepPause {
		return
	}
	q.swept = at
	before := len(q.objects)
	for uid, a := range q.objects {
		if a.balance(at) >= burst && at.Sub(a.latest) >= series {
			delete(q.objects, uid)
		}
	}
	if len(q.objects) < before/2 {
		q.objects = maps.Clone(q.objects) // a map keeps the room of what was deleted
	}
}
