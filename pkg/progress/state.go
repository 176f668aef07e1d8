package progress

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A State holds the records of one object while a cause is being handled. All methods and stores change the object only in memory. A State
// is not safe for concurrent use.
type State struct {
	cause    string
	handlers []handler
	index    map[string]int // positions of the handlers by id; nil until needed
}

type handler struct {
	id     string
	parent string // id of the parent handler; empty for top-level handlers
	record Record
	stored bool // whether the object has a value for the id, even an unreadable one
	active bool // whether the handler is selected for the cause

	discarded bool   // whether the stored record is obsolete
	earlier   string // the id under which the record is stored, if the handler was renamed
	kept      bool   // whether the record stays while it belongs to no cause, see [State.Keep]
	omitted   bool   // whether the record is removed once the handler has finished, see [State.Omit]
}

// A Summary counts handlers by result.
type Summary struct{ Succeeded, Failed, Left int }

func (s *State) add(h handler) {
	if s.index != nil {
		s.index[h.id] = len(s.handlers)
	}
	s.handlers = append(s.handlers, h)
}

// maxScanned is the number of handlers up to which a scan is faster than a map.
const maxScanned = 16

// find returns nil if the id isn't loaded.
func (s *State) find(id string) *handler {
	if len(s.handlers) <= maxScanned {
		for i := range s.handlers {
			if s.handlers[i].id == id {
				return &s.handlers[i]
			}
		}
		return nil
	}
	if s.index == nil {
		s.index = make(map[string]int, len(s.handlers))
		for i, h := range s.handlers {
			s.index[h.id] = i
		}
	}
	if i, found := s.index[id]; found {
		return &s.handlers[i]
	}
	return nil
}

// Begin selects the loaded handlers with the given ids for a cause. The reason identifies the cause and is stored in the records. Handlers
// without a record start at the given time. Unfinished records of other causes keep their attempts and delays, so a new cause doesn't
// shorten a backoff. Finished records of other causes are reset, so their handlers are due again. For each other cause, Begin returns a
// summary of the records of top-level handlers.
func (s *State) Begin(reason string, ids []string, now time.Time) (superseded map[string]Summary) {
	s.cause = reason
	for i := range s.handlers {
		h := &s.handlers[i]
		if other := h.record.Purpose; other != "" && other != reason && h.parent == "" && !h.kept {
			if superseded == nil {
				superseded = map[string]Summary{}
			}
			superseded[other] = superseded[other].plus(h.record)
		}
		h.active = false
	}
	for _, id := range ids {
		if h := s.find(id); h != nil && !h.active {
			h.active = true
			h.begin(reason, now)
		}
	}
	return superseded
}

// begin assigns the record to a cause and corrects its times for clock skew.
func (h *handler) begin(cause string, now time.Time) {
	h.record = h.record.withoutClockSkew(now)
	if h.record.Purpose != "" && h.record.Purpose != cause && h.record.Finished() {
		h.record = Record{Subrefs: h.record.Subrefs}
	}
	if h.record.Started.IsZero() {
		h.record.Started = now
	}
	h.record.Purpose = cause
	h.record = h.record.withStoredTimes()
}

// Adopt selects the sub-handlers that a handler declared during its attempt and loads their records. It also adds their ids to the records
// of all ancestors, so that [State.Purge] removes their records even if they aren't declared again.
func (s *State) Adopt(store Store, obj client.Object, parent string, ids []string, now time.Time) error {
	var errs []error
	reader := readerOf(store, obj)
	subs, isAdopted := make([]handler, 0, len(ids)), make(map[string]bool, len(ids))
	for _, id := range ids {
		if isAdopted[id] {
			continue
		}
		isAdopted[id] = true
		if s.find(id) == nil {
			errs = append(errs, s.load(reader, parent, id))
		}
		sub := *s.find(id)
		sub.parent, sub.active = parent, true
		sub.begin(s.cause, now)
		subs = append(subs, sub)
	}
	// Keep the order of declaration.
	s.handlers = append(slices.DeleteFunc(s.handlers, func(h handler) bool { return isAdopted[h.id] }), subs...)
	s.index = nil
	for h := s.find(parent); h != nil; h = s.find(h.parent) {
		known := make(map[string]bool, len(h.record.Subrefs))
		for _, id := range h.record.Subrefs {
			known[id] = true
		}
		h.record.Subrefs = slices.Clip(h.record.Subrefs) // the list can be shared
		for _, sub := range subs {
			if !known[sub.id] {
				h.record.Subrefs = append(h.record.Subrefs, sub.id)
			}
		}
	}
	return errors.Join(errs...)
}

// Relabel assigns finished records of any cause to the given cause without resetting them. Use it for handlers that are selected for a new
// cause but must not be called again.
func (s *State) Relabel(cause string, ids []string) {
	for _, id := range ids {
		if h := s.find(id); h != nil && h.record.Finished() && h.record.Purpose != "" {
			h.record.Purpose = cause
		}
	}
}

// Keep makes all methods leave the record of a handler on the object while the handler is not selected, and its sub-handlers' records as
// well. Use it for a handler whose attempts go on after the cause at hand.
func (s *State) Keep(id string) {
	for _, one := range append([]string{id}, s.Record(id).Subrefs...) {
		if h := s.find(one); h != nil {
			h.kept = true
		}
	}
}

// Due returns the selected top-level handlers that may be called at the given time.
func (s *State) Due(now time.Time) []string { return s.DueBelow("", now) }

// DueBelow returns the sub-handlers of a handler that may be called at the given time.
func (s *State) DueBelow(parent string, now time.Time) []string {
	var ids []string
	for _, h := range s.handlers {
		if h.active && h.parent == parent && h.record.Due(now) {
			ids = append(ids, h.id)
		}
	}
	return ids
}

// Record returns the record of a handler, or the zero [Record] for an unknown id.
func (s *State) Record(id string) Record {
	if h := s.find(id); h != nil {
		return h.record
	}
	return Record{}
}

// RecordOutcome adds the outcome of an attempt that ended at the given time to the record of the handler.
func (s *State) RecordOutcome(id string, outcome Outcome, now time.Time) {
	if h := s.find(id); h != nil {
		h.record = h.record.WithOutcome(outcome, now).withStoredTimes()
	}
}

// HasFinished reports whether a handler or a sub-handler has succeeded or failed permanently for the current cause. Unlike Record, it
// ignores results for other causes.
func (s *State) HasFinished(id string) bool {
	h := s.find(id)
	return h != nil && h.record.Finished() && (h.record.Purpose == "" || h.record.Purpose == s.cause)
}

// UnfinishedBelow returns the sub-handlers of a handler, at any depth, that have started for the cause but not finished, sorted by id. They
// include sub-handlers that the handler hasn't declared again.
func (s *State) UnfinishedBelow(parent string) (ids []string) {
	subs := s.Record(parent).Subrefs
	if len(subs) == 0 {
		return nil
	}
	below := setOf(subs)
	for _, h := range s.handlers {
		if below[h.id] && !h.record.Started.IsZero() && !h.record.Finished() && h.record.Purpose == s.cause {
			ids = append(ids, h.id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Abandon records a permanent failure of sub-handlers that won't be called any more, because their parent has finished without them. The
// messages include the errors of their last attempts.
func (s *State) Abandon(ids []string, reason error, now time.Time) {
	abandoned := setOf(ids)
	for i := range s.handlers {
		h := &s.handlers[i]
		if !abandoned[h.id] {
			continue
		}
		err := reason
		if h.record.Message != "" {
			err = fmt.Errorf("%w; the last error: %s", reason, h.record.Message)
		}
		h.record, h.active = h.record.WithOutcome(Outcome{Err: err, Final: true}, now), true // because Save stores only active handlers
	}
}

func setOf(ids []string) map[string]bool {
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// SetRecord replaces the record of a handler.
func (s *State) SetRecord(id string, record Record) {
	if h := s.find(id); h != nil {
		h.record = record
	}
}

// WaitAgain resets the success of all ancestors of an unfinished sub-handler. Use it if a sub-handler turns out not to have succeeded after
// its ancestors have.
func (s *State) WaitAgain(id string) {
	sub := s.find(id)
	if sub == nil || sub.record.Finished() {
		return
	}
	for h := s.find(sub.parent); h != nil && h.record.Success; h = s.find(h.parent) {
		h.record.Success, h.record.Stopped = false, time.Time{}
		h.record.Delayed, h.record.Attempted = sub.record.Delayed, sub.record.Attempted
		h.record.Retries--
	}
}

// WithOutcome returns the record after an attempt that ended at the given time.
func (r Record) WithOutcome(outcome Outcome, now time.Time) Record {
	if outcome.Interrupted {
		return r
	}
	if outcome.Attempted && !outcome.Waiting {
		r.Retries++
	}
	r.Message, r.Delayed, r.Attempted = "", time.Time{}, time.Time{}
	if outcome.Err != nil && !outcome.Success {
		r.Message = truncate(strings.ToValidUTF8(outcome.Err.Error(), "\uFFFD"), maxMessage) // JSON has only valid UTF-8
	}
	switch {
	case outcome.Final:
		r.Stopped, r.Success, r.Failure = now, outcome.Success, !outcome.Success
	default:
		r.Delayed, r.Attempted = now.Add(min(outcome.Delay, MaxDelay)), now
	}
	return r
}

// Done reports whether all selected handlers have succeeded or failed permanently. It checks only top-level handlers, because no handler
// finishes before its sub-handlers.
func (s *State) Done() bool {
	_, remaining := s.Delay(time.Time{})
	return !remaining
}

// Delay returns the time until the next selected top-level handler is due; 0 if one is due now. It returns false if no unfinished handler
// remains. The handlers in except don't count.
func (s *State) Delay(now time.Time, except ...string) (delay time.Duration, ok bool) {
	return s.delayBelow("", now, except)
}

// DelayBelow is [State.Delay] for the sub-handlers of a handler.
func (s *State) DelayBelow(parent string, now time.Time) (delay time.Duration, ok bool) {
	return s.delayBelow(parent, now, nil)
}

func (s *State) delayBelow(parent string, now time.Time, except []string) (delay time.Duration, ok bool) {
	for _, h := range s.handlers {
		if !h.active || h.parent != parent || h.record.Finished() || slices.Contains(except, h.id) {
			continue
		}
		remaining := h.record.wait(now)
		if !ok || remaining < delay {
			delay, ok = remaining, true
		}
	}
	return delay, ok
}

// Summary counts the selected top-level handlers.
func (s *State) Summary() (summary Summary) {
	for _, h := range s.handlers {
		if h.active && h.parent == "" {
			summary = summary.plus(h.record)
		}
	}
	return summary
}

func (summary Summary) plus(r Record) Summary {
	switch {
	case r.Success:
		summary.Succeeded++
	case r.Failure:
		summary.Failed++
	default:
		summary.Left++
	}
	return summary
}

// Restart resets the finished handlers and sub-handlers of a cause, so that they are called again. Unfinished handlers keep their attempts
// and delays. Handlers that only wait for sub-handlers become due immediately.
func (s *State) Restart(cause string) {
	for i := range s.handlers {
		h := &s.handlers[i]
		switch {
		case !h.stored || h.record.Purpose != cause:
		case h.record.Finished():
			h.record, h.discarded = Record{Purpose: cause, Subrefs: h.record.Subrefs}, true
		case h.record.WaitsForSubs():
			h.record.Delayed, h.record.Attempted = time.Time{}, time.Time{}
		}
	}
}

// Redo resets a finished handler and its finished sub-handlers, so that they are called again.
func (s *State) Redo(id string) {
	h := s.find(id)
	if h == nil || !h.record.Finished() {
		return
	}
	subs := h.record.Subrefs
	h.record, h.discarded = Record{Purpose: h.record.Purpose, Subrefs: subs}, h.stored
	for _, sub := range subs {
		s.Redo(sub)
	}
}

// StartAfresh resets a handler and its sub-handlers, so that their attempts and delays don't count.
func (s *State) StartAfresh(id string) {
	if h := s.find(id); h != nil {
		subs := h.record.Subrefs
		h.record, h.discarded, h.kept = Record{Subrefs: subs}, h.stored, false
		for _, sub := range subs {
			s.StartAfresh(sub)
		}
	}
}

// Omit makes [State.Save] remove the record of a handler once it has finished, and those of its sub-handlers. Use it if its outcome is
// stored elsewhere.
func (s *State) Omit(id string) {
	if h := s.find(id); h != nil {
		h.omitted = true
	}
}

// RestartAll resets all handlers and discards their stored records of all causes.
func (s *State) RestartAll() {
	for i := range s.handlers {
		h := &s.handlers[i]
		h.record, h.discarded = Record{Subrefs: h.record.Subrefs}, h.stored
	}
}

// StaleAfter returns the time until [State.PurgeStale] can remove all records. It returns false if no delay remains.
func (s *State) StaleAfter(now time.Time) (delay time.Duration, ok bool) {
	for _, h := range s.handlers {
		if h.stored && !h.kept && h.record.delayed(now) {
			delay, ok = max(delay, h.record.wait(now)), true
		}
	}
	return delay, ok
}

// HasRecords reports whether the object has records for a cause.
func (s *State) HasRecords(cause string) bool {
	return slices.ContainsFunc(s.handlers, func(h handler) bool { return h.stored && h.record.Purpose == cause })
}

// HasAttempts reports whether any handler was called for a cause, or has finished for it.
func (s *State) HasAttempts(cause string) bool {
	return slices.ContainsFunc(s.handlers, func(h handler) bool {
		return h.stored && h.record.Purpose == cause && (h.record.Finished() || h.record.Retries > 0)
	})
}

// HasStale reports whether [State.PurgeStale] would remove a record.
func (s *State) HasStale(now time.Time) bool {
	return slices.ContainsFunc(s.handlers, func(h handler) bool { return h.stored && !h.kept && !s.delayed(&h, now) })
}

// delayed reports whether a handler or one of its sub-handlers still has a delay.
func (s *State) delayed(h *handler, now time.Time) bool {
	return !h.record.Finished() && (h.record.delayed(now) || slices.ContainsFunc(h.record.Subrefs, func(id string) bool {
		sub := s.find(id)
		return sub != nil && sub.record.delayed(now)
	}))
}

func (r Record) delayed(now time.Time) bool { return !r.Finished() && r.wait(now) > 0 }
