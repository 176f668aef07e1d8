package progress

import (
	"errors"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A State is what is known of the handlers of one object while a cause is being handled: which
// were selected, which are due, how far they are. It is a calculation: the store it is loaded from
// and saved to changes the object in memory only.
type State struct {
	purpose  string
	handlers []handler
}

type handler struct {
	id     string
	parent string // the id of a handler above it; empty for those that are no sub-handlers
	record Record
	stored bool // something of it, if only an unreadable one, is on the object
	active bool // selected for the cause

	renewed bool // what is stored of it does not count any more
}

// A Summary counts the selected handlers of a state by how far they are.
type Summary struct{ Succeeded, Failed, Left int }

// Load reads the records of all ids that could have one, and of the sub-handlers that those have had. The
// error tells of unreadable records; the state is good all the same, these records are taken as absent.
func Load(store Store, obj client.Object, ids []string) (*State, error) {
	state := &State{handlers: make([]handler, 0, len(ids))}
	var problems []error
	for _, id := range ids {
		problems = append(problems, state.load(store, obj, "", id))
	}
	for _, h := range state.handlers {
		for _, id := range h.record.Subrefs {
			if state.find(id) == nil {
				problems = append(problems, state.load(store, obj, h.id, id))
			}
		}
	}
	return state, errors.Join(problems...)
}

func (s *State) load(store Store, obj client.Object, parent, id string) error {
	record, err := store.Fetch(obj, id)
	h := handler{id: id, parent: parent, stored: record != nil || err != nil || holdsNull(store, obj, id)}
	if record != nil {
		h.record = *record
	}
	s.handlers = append(s.handlers, h)
	return err
}

// A nullHolder is a [Store] in which a null can stand for a record. Fetch does not return it, but it must be purged.
type nullHolder interface {
	// holds reports whether any value is stored for an id.
	holds(obj client.Object, id string) bool
}

func holdsNull(store Store, obj client.Object, id string) bool {
	holder, ok := store.(nullHolder)
	return ok && holder.holds(obj, id)
}

// find returns nil for an id that was not loaded.
func (s *State) find(id string) *handler {
	for i := range s.handlers {
		if s.handlers[i].id == id {
			return &s.handlers[i]
		}
	}
	return nil
}

// Begin selects the handlers of a cause, in their order. Handlers without a record begin at the
// given time. Records that belong to another cause are taken over: unfinished ones keep their
// attempts and delays, so that no change of the cause shortens a backoff; finished ones begin anew,
// so that no success stands for a call that was never made. What was left of other causes is returned.
func (s *State) Begin(purpose string, ids []string, now time.Time) (superseded map[string]Summary) {
	s.purpose = purpose
	for i := range s.handlers {
		h := &s.handlers[i]
		if foreign := h.record.Purpose; foreign != "" && foreign != purpose && h.parent == "" {
			if superseded == nil {
				superseded = map[string]Summary{}
			}
			superseded[foreign] = superseded[foreign].plus(h.record)
		}
		h.active = slices.Contains(ids, h.id)
		if !h.active {
			continue
		}
		h.enter(purpose, now)
	}
	return superseded
}

// enter makes the record one of the cause, by the clock of this process.
func (h *handler) enter(purpose string, now time.Time) {
	h.record = h.record.synchronized(now)
	if h.record.Purpose != "" && h.record.Purpose != purpose && h.record.Finished() {
		h.record = Record{Subrefs: h.record.Subrefs}
	}
	if h.record.Started.IsZero() {
		h.record.Started = now
	}
	h.record.Purpose = purpose
}

// Adopt selects handlers that another one has declared while it was called: its sub-handlers. Their
// records are loaded; the handlers above remember their ids, to purge them when the cause is over, even
// if they are not declared again by then.
func (s *State) Adopt(store Store, obj client.Object, parent string, ids []string, now time.Time) error {
	var problems []error
	for _, id := range ids {
		if known := s.find(id); known == nil {
			problems = append(problems, s.load(store, obj, parent, id))
		} else { // in the order of their declaration
			moved := *known
			s.handlers = append(slices.DeleteFunc(s.handlers, func(h handler) bool { return h.id == id }), moved)
		}
		sub := &s.handlers[len(s.handlers)-1]
		sub.parent, sub.active = parent, true
		sub.enter(s.purpose, now)
		for above := parent; above != ""; {
			h := s.find(above)
			if !slices.Contains(h.record.Subrefs, id) {
				h.record.Subrefs = append(slices.Clone(h.record.Subrefs), id)
			}
			above = h.parent
		}
	}
	return errors.Join(problems...)
}

// Carry takes finished records of any cause into the given one, where they count as they are: for
// handlers that are selected along with a new cause, but were called for none in particular.
func (s *State) Carry(purpose string, ids []string) {
	for i := range s.handlers {
		if h := &s.handlers[i]; slices.Contains(ids, h.id) && h.record.Finished() && h.record.Purpose != "" {
			h.record.Purpose = purpose
		}
	}
}

// Due returns the selected handlers that can be called at the given time; sub-handlers not included.
func (s *State) Due(now time.Time) []string { return s.DueBelow("", now) }

// DueBelow returns the sub-handlers of a handler that can be called at the given time.
func (s *State) DueBelow(parent string, now time.Time) []string {
	var ids []string
	for _, h := range s.handlers {
		if h.active && h.parent == parent && h.record.Due(now) {
			ids = append(ids, h.id)
		}
	}
	return ids
}

// Record returns what is known of a handler.
func (s *State) Record(id string) Record {
	for _, h := range s.handlers {
		if h.id == id {
			return h.record
		}
	}
	return Record{}
}

// Settle takes in the outcome of an attempt that ended at the given time.
func (s *State) Settle(id string, outcome Outcome, now time.Time) {
	for i := range s.handlers {
		if h := &s.handlers[i]; h.id == id {
			h.record = h.record.After(outcome, now)
		}
	}
}

// Reset puts a handler back to an earlier record.
func (s *State) Reset(id string, record Record) {
	for i := range s.handlers {
		if s.handlers[i].id == id {
			s.handlers[i].record = record
		}
	}
}

// Reopen has the handlers above one wait for it again, which have succeeded as if it had, but it has not.
func (s *State) Reopen(id string) {
	below := s.find(id)
	if below == nil || below.record.Finished() {
		return
	}
	for h := s.find(below.parent); h != nil && h.record.Success; h = s.find(h.parent) {
		h.record.Success, h.record.Stopped = false, time.Time{}
		h.record.Delayed, h.record.Attempted = below.record.Delayed, below.record.Attempted
		h.record.Retries--
	}
}

// After is the record after an attempt that ended at the given time.
func (r Record) After(outcome Outcome, now time.Time) Record {
	if outcome.Interrupted {
		return r
	}
	if outcome.Attempted && !outcome.Waiting {
		r.Retries++
	}
	r.Message, r.Delayed, r.Attempted = "", time.Time{}, time.Time{}
	if outcome.Err != nil && !outcome.Success {
		r.Message = shortenedText(outcome.Err.Error(), maxMessage)
	}
	switch {
	case outcome.Final:
		r.Stopped, r.Success, r.Failure = now, outcome.Success, !outcome.Success
	default:
		r.Delayed, r.Attempted = now.Add(outcome.Delay), now
	}
	return r
}

// Done reports whether all selected handlers have succeeded or failed for good. Sub-handlers do not
// count: their parents wait for them.
func (s *State) Done() bool {
	_, left := s.Delay(time.Time{})
	return !left
}

// Delay tells how long after the given time the next selected handler is due: 0 when one is due
// already, false when none is left. Handlers that cannot be called, due or not, are to be named.
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
		left := max(0, h.record.Delayed.Sub(now))
		if !ok || left < delay {
			delay, ok = left, true
		}
	}
	return delay, ok
}

// Summary counts the selected handlers, without sub-handlers.
func (s *State) Summary() (sum Summary) {
	for _, h := range s.handlers {
		if h.active && h.parent == "" {
			sum = sum.plus(h.record)
		}
	}
	return sum
}

func (sum Summary) plus(r Record) Summary {
	switch {
	case r.Success:
		sum.Succeeded++
	case r.Failure:
		sum.Failed++
	default:
		sum.Left++
	}
	return sum
}

// Save puts the records of the selected handlers on the object, and removes those of other causes.
func (s *State) Save(store Store, obj client.Object) error {
	var problems []error
	for i := range s.handlers {
		h := &s.handlers[i]
		// Sub-handlers that are not declared in this pass may be yet: they stay while their parent does.
		switch foreign := h.record.Purpose != "" && h.record.Purpose != s.purpose && h.parent == ""; {
		case h.active:
			problems = append(problems, store.Store(obj, h.id, h.record))
			h.stored = true
		case h.stored && foreign:
			problems = append(problems, purge(store, obj, *h))
		case h.renewed:
			problems = append(problems, store.Purge(obj, h.id))
		}
	}
	return errors.Join(problems...)
}

// Purge removes all records from the object: their cause is over.
func (s *State) Purge(store Store, obj client.Object) error {
	return s.purge(store, obj, func(handler) bool { return true })
}

// Renew has the handlers that have come to their ends for a cause begin anew, with their sub-handlers: what
// they are done with was undone, and they have to be told. The others keep their attempts and delays; only
// those that wait for sub-handlers are called at once.
func (s *State) Renew(purpose string) {
	for i := range s.handlers {
		h := &s.handlers[i]
		switch {
		case !h.stored || h.record.Purpose != purpose:
		case h.record.Finished():
			h.record, h.renewed = Record{Purpose: purpose, Subrefs: h.record.Subrefs}, true
		case h.record.Waits():
			h.record.Delayed, h.record.Attempted = time.Time{}, time.Time{}
		}
	}
}

// Forget has all handlers begin anew: what is stored of them is not of this cause, whatever it says.
func (s *State) Forget() {
	for i := range s.handlers {
		h := &s.handlers[i]
		h.record, h.renewed = Record{Subrefs: h.record.Subrefs}, h.stored
	}
}

// Retire removes the records that are of no use when there is nothing to handle: no success or failure
// may stand for a later cause. Delays that are not over yet stay: a change that is made, reverted and
// made again does not shorten them.
func (s *State) Retire(store Store, obj client.Object, now time.Time) error {
	return s.purge(store, obj, func(h handler) bool { return !s.delayed(h, now) })
}

// Left tells how long after the given time the last of the delays is over that [State.Retire] leaves: then
// there is more to retire. False when there is none.
func (s *State) Left(now time.Time) (delay time.Duration, ok bool) {
	for _, h := range s.handlers {
		if h.stored && h.record.delayed(now) {
			delay, ok = max(delay, h.record.Delayed.Sub(now)), true
		}
	}
	return delay, ok
}

// Started reports whether anything of a cause is on the object: records of handlers that were selected for it.
func (s *State) Started(purpose string) bool {
	return slices.ContainsFunc(s.handlers, func(h handler) bool { return h.stored && h.record.Purpose == purpose })
}

// Acted reports whether a handler was called for a cause, be it that it has only failed so far, so that it has
// to be told when the cause is undone.
func (s *State) Acted(purpose string) bool {
	return slices.ContainsFunc(s.handlers, func(h handler) bool {
		return h.stored && h.record.Purpose == purpose && (h.record.Finished() || h.record.Retries > 0)
	})
}

// Retirable reports whether there is anything to [State.Retire].
func (s *State) Retirable(now time.Time) bool {
	return slices.ContainsFunc(s.handlers, func(h handler) bool { return h.stored && !s.delayed(h, now) })
}

// delayed reports whether the delay of a handler, or of one below it, is not over.
func (s *State) delayed(h handler, now time.Time) bool {
	return !h.record.Finished() && (h.record.delayed(now) || slices.ContainsFunc(s.handlers, func(sub handler) bool {
		return slices.Contains(h.record.Subrefs, sub.id) && sub.record.delayed(now)
	}))
}

func (r Record) delayed(now time.Time) bool { return !r.Finished() && r.Delayed.After(now) }

func (s *State) purge(store Store, obj client.Object, which func(handler) bool) error {
	var problems []error
	for _, h := range s.handlers {
		if h.stored && which(h) {
			problems = append(problems, purge(store, obj, h))
		}
	}
	return errors.Join(problems...)
}

func purge(store Store, obj client.Object, h handler) error {
	problems := []error{store.Purge(obj, h.id)}
	for _, id := range h.record.Subrefs {
		problems = append(problems, store.Purge(obj, id))
	}
	return errors.Join(problems...)
}

// maxMessage is how many bytes of an error are remembered: a record must fit on the object.
const maxMessage = 1024

// Shorten cuts the messages in all records to a number of bytes, for an object that has no room for more.
func (s *State) Shorten(limit int) {
	for i := range s.handlers {
		record := &s.handlers[i].record
		record.Message = shortenedText(record.Message, limit)
	}
}

func shortenedText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}
