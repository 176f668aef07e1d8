package daemons

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A Key names a daemon or a timer: that of one handler, for one object. An object that is created again under
// the same name has another uid.
type Key struct {
	UID types.UID // of the object
	ID  string    // of the handler
}

// A Task is what a [Supervisor] runs for an object: a daemon, or with a Timer, a timer.
type Task struct {
	// Run is the work. For a daemon it is called once and returns when its work is done, or when its context
	// ends; for a timer it is called again and again. Its error means what the Policy says; a panic is an error.
	// Required.
	Run func(ctx context.Context, attempt progress.Attempt) error
	// Policy judges errors and sets limits. Those of a timer are for one chain of retries, up to the next success.
	//
	// kopf: retries=, timeout=, backoff=, errors=.
	Policy progress.Policy
	// OnAttempt, if set, is called when an attempt has ended, with the record before it: to tell people how it went. It is called
	// before anything follows from the attempt, so it should be quick.
	OnAttempt func(before progress.Record, outcome progress.Outcome)
	// InitialDelay is waited for whenever the daemon or timer is started, also after a pause. Default: 0.
	//
	// kopf: initial_delay=.
	InitialDelay time.Duration

	// Kind and Label are the labels of metrics, so they should have few values. Label defaults to the ID of the key.
	Kind, Label string
	// Object is for the log.
	Object types.NamespacedName

	// Restart says whether a daemon is started again when it has come to an end by itself. Default: [RestartNever].
	// Not for timers.
	Restart RestartPolicy
	// CancellationBackoff is how long after the end of its context a daemon is first said to ignore it, in the
	// log. nil: as often as [Options].ReportEvery. Not for timers.
	//
	// kopf: cancellation_backoff=.
	CancellationBackoff *time.Duration
	// CancellationTimeout is how long after that a daemon is abandoned: it counts as ended, its object is free to
	// go. nil: it is waited for as long as the object is there. Not for timers.
	//
	// kopf: cancellation_timeout=.
	CancellationTimeout *time.Duration

	// Timer makes the task a timer. nil: it is a daemon. It must not be changed afterwards.
	Timer *Timer
}

// A RestartPolicy says whether a daemon is started again when it has come to an end by itself. The pause before
// that is a second; it is doubled each time up to the Policy's Backoff, and is a second again after a
// run that was longer than that.
type RestartPolicy int

const (
	// RestartNever leaves it down until the object is forgotten. As in kopf.
	RestartNever RestartPolicy = iota
	// RestartOnFailure starts it again when it has failed for good: with a permanent error, or at its limits.
	RestartOnFailure
	// RestartAlways starts it again also when it has returned without an error.
	RestartAlways
)

func (t *Task) label(key Key) string {
	if t.Label != "" {
		return t.Label
	}
	return key.ID
}

// minPause is the pause before the first restart of a daemon.
const minPause = time.Second

// pause is the one before the next restart, after so many that came quickly, and the longest one.
func (t *Task) pause(restarts int) (pause, longest time.Duration) {
	longest = progress.DefaultBackoff
	if t.Policy.Backoff != nil {
		longest = max(0, *t.Policy.Backoff)
	}
	pause = minPause
	for range restarts {
		if pause > longest/2 {
			return longest, longest
		}
		pause *= 2
	}
	return min(pause, longest), longest
}
