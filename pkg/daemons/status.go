package daemons

import "time"

// Status describes the current state of one object's daemon or timer.
type Status struct {
	State State
	// Due is the time of the next attempt or invocation. It is zero unless State is StateWaiting.
	Due time.Time
	// Attempts is the number of failed attempts since the last success or restart, or since Touch reactivated a failed timer.
	Attempts int
	// LastError is the error of the last of these attempts; empty if there is none.
	LastError string
}

// State is the state of a daemon or a timer.
type State string

// The states of daemons and timers.
const (
	StateAbsent   State = ""        // the task was not started, or was stopped
	StatePaused   State = "paused"  // the task starts after the pause
	StateWaiting  State = "waiting" // the task waits for its due time
	StateQueued   State = "queued"  // the timer is due, and waits until other timers of its group have finished
	StateRunning  State = "running"
	StateStopping State = "stopping" // the context is cancelled, but the function has not returned
	StateIdle     State = "idle"     // the timer waits for Touch: it has succeeded and has neither an Interval nor a Schedule
	StateFailed   State = "failed"   // the timer waits for Touch: it has failed permanently
	StateEnded    State = "ended"    // the task has ended permanently
)

var states = map[phase]State{
	suspended: StatePaused, waiting: StateWaiting, queued: StateQueued, active: StateRunning, stopping: StateStopping, dormant: StateIdle, failed: StateFailed, ended: StateEnded,
}

// Status returns the status of a daemon or a timer.
func (s *Supervisor) Status(key Key) Status {
	s.mu.Lock()
	defer s.unlock()
	j := s.objects[key.UID].find(key.ID)
	if j == nil {
		return Status{}
	}
	status := Status{State: states[j.phase], Attempts: j.attempts().Retries, LastError: j.attempts().Message}
	if j.phase == waiting {
		status.Due = j.due
	}
	return status
}
