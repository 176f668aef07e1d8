package daemons

import "time"

// Status describes a daemon or a timer of one object at one time.
type Status struct {
	State State
	// Due is the time of the next attempt or invocation; zero if it is running or not scheduled.
	Due time.Time
	// Attempts is the number of failed attempts since the last success.
	Attempts int
	// LastError is the error of the last attempt; empty if it has succeeded.
	LastError string
}

// State is the state of a daemon or a timer.
type State string

// The states of daemons and timers.
const (
	StateAbsent   State = ""        // it was not started, or was stopped
	StatePaused   State = "paused"  // it starts after the pause
	StateWaiting  State = "waiting" // it waits for its due time
	StateQueued   State = "queued"  // it is due, and waits until other objects have finished
	StateRunning  State = "running"
	StateStopping State = "stopping" // its context is cancelled, and it is still running
	StateFailed   State = "failed"   // a timer that has failed permanently: a change of the object starts it again
	StateEnded    State = "ended"    // it has ended permanently
)

var states = map[phase]State{
	suspended: StatePaused, waiting: StateWaiting, queued: StateQueued, active: StateRunning, stopping: StateStopping, dormant: StateFailed, ended: StateEnded,
}

// Status returns the status of a daemon or a timer.
func (s *Supervisor) Status(key Key) Status {
	s.mu.Lock()
	defer s.unlock()
	j := s.objects[key.UID].find(key.ID)
	if j == nil {
		return Status{}
	}
	status := Status{State: states[j.phase], Attempts: j.record.Retries, LastError: j.record.Message}
	if j.phase == waiting {
		status.Due = j.due
	}
	return status
}
