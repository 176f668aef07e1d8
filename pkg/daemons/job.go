package daemons

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// An object holds the jobs of one Kubernetes object.
type object struct {
	uid     types.UID
	jobs    []*job
	touched time.Time     // time of the last Touch, or of the first job
	touches uint64        // number of calls to Touch
	notBusy chan struct{} // closed when the object is no longer busy; nil if no caller waits
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
	group  *group // group of a timer
	task   Task
	phase  phase
	run    *run // the current run; nil if there is none

	record         *progress.Record // record of the attempts of the current invocation; nil before the first attempt
	point          time.Time        // scheduled time of the next or current invocation of a timer
	lastInvocation time.Time        // Timer.Last; zero after the first invocation of a timer has started
	restarts       int              // number of consecutive quick restarts of a daemon

	retrySchedule bool  // whether the schedule of the timer must be called again
	isForced      bool  // whether the next run starts regardless of the idle time, because of RunNow
	next          *Task // the task that starts after the stopping run has ended

	due     time.Time
	arrival uint64
	queue   *queue
	index   int
}

// attempts returns the record of the attempts of the current invocation. It is zero before the first attempt.
func (j *job) attempts() progress.Record {
	if j.record == nil {
		return progress.Record{}
	}
	return *j.record
}

// A run is a call of the function that hasn't returned yet.
type run struct {
	cancel  context.CancelCauseFunc
	touches uint64 // object.touches at the start of the run

	// The supervisor sets these fields when it stops the run.
	cause      error
	stoppedAt  time.Time
	abandonAt  time.Time // when the supervisor abandons the run; zero if there is no limit
	nextReport time.Time // time of the next warning
	unstopped  bool      // whether the supervisor has logged a warning
	abandoned  bool
	forgotten  bool // whether OnEnd is skipped for the run
}

// A phase is the state of a job.
type phase int

const (
	absent    phase = iota // the job is unknown or removed
	suspended              // the job starts after the pause
	waiting                // the job waits for its due time
	queued                 // the job is due, but the group is full
	active                 // the job runs
	stopping               // the job runs with a cancelled context
	dormant                // the timer waits for Touch: it has succeeded and does not repeat
	failed                 // the timer waits for Touch: it has failed permanently
	ended                  // the job has ended permanently
)

func (p phase) alive() bool { return p >= waiting && p <= failed }

// enter sets the phase of a job and updates the metrics.
func (j *job) enter(p phase) {
	was := j.phase
	j.phase = p
	label := j.task.label(j.key)
	if was.alive() != p.alive() {
		gauge := metrics.Daemons
		if j.task.Timer != nil {
			gauge = metrics.Timers
		}
		gauge.WithLabelValues(j.task.Kind, label).Add(gaugeChange(p.alive()))
	}
	if (was == queued) != (p == queued) {
		metrics.TimersDue.WithLabelValues(j.task.Kind, label).Add(gaugeChange(p == queued))
	}
}

func gaugeChange(up bool) float64 {
	if up {
		return 1
	}
	return -1
}

// idleUntil returns when the job's idle time ends if nothing changes; zero if it has none.
func (j *job) idleUntil() time.Time {
	if j.task.Timer == nil || j.task.Timer.Idle == 0 {
		return time.Time{}
	}
	return j.object.touched.Add(j.task.Timer.Idle)
}
