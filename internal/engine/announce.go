package engine

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Events say which Events are posted by themselves.
type Events int

const (
	// EventsTransitions are for when a handler has failed for good, and when it has succeeded after it had failed.
	EventsTransitions Events = iota
	// EventsOff are none.
	EventsOff
	// EventsSteps are for each attempt of each handler.
	EventsSteps
)

// spread posts the news of the pass, which are known when what the handlers have changed is written: it may be refused.
func (e *Engine) flushEvents(r *reconciliation) {
	for _, logPlan := range r.pendingEvents {
		logPlan()
	}
	r.pendingEvents = nil
}

// announce posts what people should know about how an attempt of a handler for a cause has ended. Attempts that are made again are no
// news: a handler that fails ten thousand times is one Event, or none.
func (e *Engine) postOutcome(r *reconciliation, s *handlerPatch) {
	o := s.outcome
	e.postEvents(r.before, s.id, s.before, o, o.Final && !o.Success, s.before.Message != "" && o.Err == nil)
}

// announceAgain does it for handlers that are called again and again: OnReconcile, daemons and timers. With them a failure in between is
// everyday, such as a conflict, and a failure for good may be repeated. So it is told when one begins to fail for good, and when it does so no
// more. It returns what is told then.
func (e *Engine) postTransition(obj client.Object, id string, failed bool, before progress.Record, outcome progress.Outcome) (fails bool) {
	switch {
	case outcome.Interrupted, !outcome.Final, outcome.Success && outcome.Err != nil: // it is not known, or not to be
		fails = failed
	default:
		fails = !outcome.Success
	}
	if obj != nil { // else it is gone
		e.postEvents(obj, id, before, outcome, fails && !failed, failed && !fails)
	}
	return fails
}

// announceTo posts about an outcome; fails and recovers say whether it is one of the two transitions.
func (e *Engine) postEvents(obj client.Object, id string, before progress.Record, outcome progress.Outcome, fails, recovers bool) {
	steps := e.Events == EventsSteps
	if e.Events == EventsOff || outcome.Interrupted || outcome.Waiting || !outcome.Final && !steps {
		return
	}
	// The action is the handler: Events that differ only in their notes are taken for one.
	notify := func(urgent bool, eventType, reason, note string, args ...any) {
		e.post(obj, urgent, eventType, reason, id, fmt.Sprintf(note, args...))
	}
	switch {
	case !outcome.Final:
		notify(false, "Warning", "HandlerRetries", "%s: %v", id, outcome.Err)
	case !outcome.Success && (fails || steps):
		notify(fails, "Warning", "HandlerFailed", "%s: %v", id, outcome.Err)
	case !outcome.Success:
	case outcome.Err != nil && steps:
		notify(false, "Warning", "HandlerIgnored", "%s: %v", id, outcome.Err)
	case recovers && before.Retries > 0:
		notify(true, "Normal", "HandlerRecovered", "%s has succeeded; failed attempts before that: %d", id, before.Retries)
	case recovers:
		notify(true, "Normal", "HandlerRecovered", "%s has succeeded; before that, it had failed for good", id)
	case steps:
		notify(false, "Normal", "HandlerSucceeded", "%s", id)
	}
}
