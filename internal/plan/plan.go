package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Records returns the stored progress of a handler. It returns the zero record for a handler that was not called.
type Records func(id string) progress.Record

// Plan contains the handlers to call now.
type Plan struct {
	// Next are the ids of the handlers to call, in order.
	Next []string
	// Blocked are the ids of the handlers that wait for another handler to succeed.
	Blocked []string
	// Skipped are the handlers that are never called for the cause, because another handler has failed.
	Skipped []Skip
	// Limited is true if the lifecycle has postponed due handlers to another reconcile.
	Limited bool
	// Refused is true if the lifecycle has chosen none of the due handlers.
	Refused bool
}

// Skip is a handler that is not called because another handler has failed.
type Skip struct{ ID, After string }

// Err returns the permanent error with which the handler fails.
func (s Skip) Err() error {
	return progress.Permanent(fmt.Errorf("it comes after %q, which has failed", s.After))
}

// Make returns the plan for the selected handlers. called are the handlers that were already called in this reconcile. The lifecycle chooses from
// these and the due handlers together. With a lifecycle that calls one handler at a time, each outcome is therefore stored before the next call.
func Make(handlers *Handlers, selected, called []string, records Records, lifecycle progress.Lifecycle, now time.Time) (p Plan) {
	var due []string
	for repeat := true; repeat; { // skipping a handler may skip handlers that come before it in the order of registration
		due, p.Blocked, repeat = nil, nil, false
		for _, id := range selected {
			record := records(id)
			if record.Finished() || p.hasSkipped(id) {
				continue
			}
			switch first, failed := p.blockingPredecessor(handlers, selected, records, id); {
			case failed:
				p.Skipped, repeat = append(p.Skipped, Skip{id, first}), true
			case first != "":
				p.Blocked = append(p.Blocked, id)
			case record.Due(now) && !slices.Contains(called, id):
				due = append(due, id)
			}
		}
	}
	p.Next = Choose(lifecycle, records, due)
	p.Refused = len(p.Next) == 0 && len(due) > 0
	if len(called) > 0 {
		room := len(Choose(lifecycle, records, slices.Concat(called, due))) - len(called)
		p.Next = p.Next[:max(0, min(room, len(p.Next)))]
	}
	p.Limited = len(p.Next) < len(due)
	return p
}

func (p Plan) hasSkipped(id string) bool {
	return slices.ContainsFunc(p.Skipped, func(s Skip) bool { return s.ID == id })
}

// blockingPredecessor returns the first handler that must succeed before another one is called, and whether it has failed.
func (p Plan) blockingPredecessor(handlers *Handlers, selected []string, records Records, id string) (first string, failed bool) {
	h, _ := handlers.Get(id)
	for _, first := range h.After {
		if record := records(first); slices.Contains(selected, first) && !record.Success {
			return first, record.Failure || p.hasSkipped(first)
		}
	}
	return "", false
}

// Choose returns the handlers that a lifecycle chooses from the due ones. It ignores ids that are not due or repeated.
func Choose(lifecycle progress.Lifecycle, records Records, due []string) (chosen []string) {
	for _, id := range lifecycle(slices.Clone(due), records) {
		if slices.Contains(due, id) && !slices.Contains(chosen, id) {
			chosen = append(chosen, id)
		}
	}
	return chosen
}
