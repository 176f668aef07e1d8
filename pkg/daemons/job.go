package daemons

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// An object is what is known of an object that has jobs.
type object struct {
	uid     types.UID
	jobs    []*job
	touched time.Time     // when it was touched, or first seen
	touches uint64        // how often it was
	quiet   chan struct{} // closed when no run of it is to be waited for any more; nil if nobody waits
}

func (o *object) find(id string) *job {
	if o == nil {
		return nil
	}
	for _, j := range o.jobs {
		if j.key.ID == id {
			return j
		}
	}
	return nil
}

func (o *object) busy() bool {
	return o != nil && slices.ContainsFunc(o.jobs, func(j *job) bool { return j.run != nil && !j.run.abandoned })
}

// A job is one daemon or timer of one object.
type job struct {
	key    Key
	object *object
	group  *group // of a timer
	task   Task
	phase  phase
	run    *run // the invocation that has not ended; nil if there is none

	record   progress.Record // of the chain of attempts; zero before the first
	point    time.Time       // of a timer: what the next invocation stands for, or the last one
	last     time.Time       // of a timer: the invocation before the first one, as its owner remembers it
	restarts int             // of a daemon: those that came quickly

	unscheduled bool  // of a timer: its schedule has to be asked again
	next        *Task // what is to be started when a stopping run has ended

	due     time.Time
	arrival uint64
	queue   *queue
	index   int
}

// A run is an invocation that has not ended.
type run struct {
	cancel  context.CancelCauseFunc
	touches uint64 // of the object, when it began

	// Once it was told to stop:
	cause     error
	told      time.Time
	abandon   time.Time // when; zero: not until the object is gone
	report    time.Time // when, next
	unstopped bool      // was reported
	abandoned bool
	forgotten bool // nobody asks about it any more
}

// A phase is where a job is.
type phase int

const (
	absent   phase = iota // not known, or not any more
	held                  // to be started when the pause is over
	waiting               // for its due time
	queued                // due, until others of its group have ended
	active                // an invocation runs
	stopping              // an invocation runs, and was told to stop
	dormant               // a timer that waits for its object to be touched
	ended                 // has come to an end by itself, for good
)

func (p phase) alive() bool { return p >= waiting && p <= dormant }

// enter moves a job to a phase, and counts.
func (j *job) enter(p phase) {
	was := j.phase
	j.phase = p
	label := j.task.label(j.key)
	if was.alive() != p.alive() {
		gauge := metrics.Daemons
		if j.task.Timer != nil {
			gauge = metrics.Timers
		}
		gauge.WithLabelValues(j.task.Kind, label).Add(change(p.alive()))
	}
	if (was == queued) != (p == queued) {
		metrics.TimersDue.WithLabelValues(j.task.Kind, label).Add(change(p == queued))
	}
}

func change(up bool) float64 {
	if up {
		return 1
	}
	return -1
}

// idleUntil is when the object has been idle for long enough; zero if that does not matter.
func (j *job) idleUntil() time.Time {
	if j.task.Timer == nil || j.task.Timer.Idle == 0 {
		return time.Time{}
	}
	return j.object.touched.Add(j.task.Timer.Idle)
}
