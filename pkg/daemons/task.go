package daemons

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A Key identifies a daemon or timer. It has the uid instead of the name, because an object can be deleted and recreated with the same
// name.
type Key struct {
	UID types.UID // UID of the object
	ID  string    // id of the handler
}

// A Task is a function that a [Supervisor] runs for an object: a daemon or, with Timer, a timer.
type Task struct {
	// Run is the function. For a daemon, it runs until its work is done or its context is cancelled. For a timer, it is called repeatedly.
	// The Policy defines what errors do, and a panic counts as an error. Required.
	Run func(ctx context.Context, attempt progress.Attempt) error
	// Policy limits the attempts and defines what errors do. For timers, the limits apply to one invocation, from the first attempt to a
	// success or a permanent failure.
	//
	// Equivalent in kopf: retries=, timeout=, backoff=, errors=.
	Policy progress.Policy
	// OnAttempt, if set, is called after each attempt with the record before the attempt, for example to post an Event. The supervisor
	// handles the outcome after OnAttempt has returned, so OnAttempt must be quick.
	OnAttempt func(before progress.Record, outcome progress.Outcome)
	// InitialDelay is the delay before each start of the daemon or timer, including starts after a pause. Default: 0.
	//
	// Equivalent in kopf: initial_delay=.
	InitialDelay time.Duration

	// Kind and Label are the values of metric labels, so use only a few different values. Label defaults to the ID of the key.
	Kind, Label string
	// Object identifies the object in log messages.
	Object types.NamespacedName

	// Daemon defines how a daemon starts again and how it ends. Not for timers.
	Daemon
	// Timer makes the task a timer. Nil makes it a daemon. Don't modify the Timer after calling Ensure.
	Timer *Timer
}

// A Daemon defines whether a daemon starts again after it has returned, and how long the supervisor waits when it must stop. The zero
// value is fine for most daemons.
type Daemon struct {
	// Restart defines whether the daemon starts again after it has returned nil or failed permanently. Default: [RestartNever].
	Restart RestartPolicy
	// CancellationBackoff is the time from cancelling the context to the first warning that the daemon is still running. Nil means
	// ReportEvery of [Options], which is one minute by default. The warning is repeated at that interval in any case.
	//
	// Equivalent in kopf: cancellation_backoff=.
	CancellationBackoff *time.Duration
	// CancellationTimeout is the time until a daemon that hasn't returned is abandoned: its goroutine keeps running, but no longer blocks
	// the deletion of the object. The time starts after CancellationBackoff or, if that is nil, with the cancellation. If
	// CancellationTimeout is nil, the daemon is abandoned only after [Supervisor.Forget] or during shutdown, when the GracePeriod of
	// [Options] has passed. That is 15 seconds in package kopf.
	//
	// Equivalent in kopf: cancellation_timeout=.
	CancellationTimeout *time.Duration
}

// A RestartPolicy defines whether a daemon restarts after it returns. The delay starts at one second and doubles up to the Backoff of the
// Policy, which is one minute by default. After a run longer than the Backoff, it is one second again.
type RestartPolicy int

const (
	// RestartNever doesn't restart the daemon until the object is forgotten, as in kopf.
	RestartNever RestartPolicy = iota
	// RestartOnFailure restarts the daemon after a permanent failure: a permanent error or a reached limit.
	RestartOnFailure
	// RestartAlways restarts the daemon after a permanent failure and after a success.
	RestartAlways
)

func (t *Task) label(key Key) string {
	if t.Label != "" {
		return t.Label
	}
	return key.ID
}

// minPause is the delay before the first restart of a daemon.
const minPause = time.Second

// restartPause returns the delay before the next restart, and the maximum delay. The parameter counts previous quick restarts.
func (t *Task) restartPause(restarts int) (pause, maxPause time.Duration) {
	maxPause = progress.DefaultBackoff
	if t.Policy.Backoff != nil {
		maxPause = max(0, *t.Policy.Backoff)
	}
	pause = minPause
	for range restarts {
		if pause > maxPause/2 {
			return maxPause, maxPause
		}
		pause *= 2
	}
	return min(pause, maxPause), maxPause
}
