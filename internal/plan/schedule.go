package plan

import (
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// refusalDelay is the delay after a lifecycle has chosen none of the due handlers.
const refusalDelay = time.Second

// Situation is the state of a cause at the end of a reconcile.
type Situation struct {
	Reason cause.Reason
	// Finished is true if all handlers of the cause have finished and their outcomes are stored.
	Finished bool
	// Edited is true if the object was edited after the cycle began.
	Edited bool
	// Plan is the last plan of the reconcile.
	Plan Plan
}

// Schedule returns the time until the object must be reconciled again, and false if nothing is left to do. Every reconcile computes it from the
// stored progress, so no delay is lost if the process ends.
func Schedule(s Situation, state *progress.State, now time.Time) (delay time.Duration, left bool) {
	switch {
	case s.Reason == cause.Noop, s.Finished && !s.Edited:
		return state.StaleAfter(now) // time at which records of an earlier cause can be removed
	case !s.Reason.HasHandlers():
		return 0, false
	case s.Finished:
		return 0, true // no further event will cause a reconcile for the edit
	}
	delay, left = state.Delay(now, s.Plan.Blocked...)
	if left && delay == 0 && s.Plan.Refused {
		delay = refusalDelay
	}
	return delay, left
}
