package progress

import (
	"errors"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxSubHandlers is the maximum number of sub-handlers that Load reads. More records wouldn't fit on an object, because all its annotations
// together may have at most 256 KiB. Without a limit, a user could keep a worker busy with a long list of ids.
const maxSubHandlers = 5000

// Load reads the records of the given ids and of the sub-handlers that these records list, up to 5000. The error joins an [UnreadableError]
// for each unreadable record. The state is usable even then, because it treats these records as absent.
func Load(store Store, obj client.Object, ids []string) (*State, error) {
	state := &State{handlers: make([]handler, 0, len(ids))}
	reader := readerOf(store, obj)
	var errs []error
	for _, id := range ids {
		errs = append(errs, state.load(reader, "", id))
	}
	left := maxSubHandlers
	for i := range ids {
		parent := &state.handlers[i]
		parent.record.Subrefs = parent.record.Subrefs[:min(len(parent.record.Subrefs), left)]
		left -= len(parent.record.Subrefs)
		parentID, subs := parent.id, parent.record.Subrefs // because load can move the parent
		for _, id := range subs {
			if state.find(id) == nil {
				errs = append(errs, state.load(reader, parentID, id))
			}
		}
	}
	return state, errors.Join(errs...)
}

func (s *State) load(reader recordReader, parent, id string) error {
	record, stored, err := reader.read(id)
	h := handler{id: id, parent: parent, stored: stored || err != nil}
	if record != nil {
		h.record = *record
	}
	s.add(h)
	return err
}

// Rename makes a handler continue with the record of its earlier id, unless the object already has one for the current id. The same goes
// for its sub-handlers. Save stores the records under the current ids and removes the earlier ones.
func (s *State) Rename(store Store, obj client.Object, id, earlier string) error {
	if h := s.find(id); h == nil || h.stored {
		return nil
	}
	reader := readerOf(store, obj)
	record, _, err := reader.read(earlier)
	if record == nil {
		return err
	}
	errs := []error{err}
	subrefs := slices.Clone(record.Subrefs[:min(len(record.Subrefs), maxSubHandlers)])
	for i, sub := range subrefs {
		renamed := handler{id: id + strings.TrimPrefix(sub, earlier), parent: id, earlier: sub}
		stored, _, err := reader.read(sub)
		if stored != nil {
			renamed.record, renamed.stored = *stored, true
		}
		errs = append(errs, err)
		s.add(renamed)
		subrefs[i] = renamed.id
	}
	h := s.find(id)
	h.record, h.stored, h.earlier = *record, true, earlier
	h.record.Subrefs = subrefs
	return errors.Join(errs...)
}

// Save stores the records of the selected handlers on the object. It removes the records of other causes and those that [State.Restart] and
// [State.RestartAll] have discarded.
func (s *State) Save(store Store, obj client.Object) error {
	var changes []recordChange
	for i := range s.handlers {
		h := &s.handlers[i]
		// A later attempt may declare a sub-handler again, so keep its record as long as its parent's.
		switch other := h.record.Purpose != "" && h.record.Purpose != s.cause && h.parent == ""; {
		case s.isOmitted(h):
			if h.stored {
				changes = append(changes, h.purges()...)
			}
		case h.active, h.stored && h.earlier != "" && !other: // sub-handlers of a renamed handler aren't active yet
			changes = append(changes, recordChange{h.id, &h.record})
			if h.earlier != "" {
				changes = append(changes, recordChange{id: h.earlier})
			}
			h.stored = true
		case h.stored && other && !h.kept:
			changes = append(changes, h.purges()...)
		case h.discarded:
			changes = append(changes, recordChange{id: h.id})
		}
	}
	return applyChanges(store, obj, changes)
}

// isOmitted reports whether a handler or one of its ancestors has finished, and its outcome is stored elsewhere.
func (s *State) isOmitted(h *handler) bool {
	if h.omitted && h.record.Finished() {
		return true
	}
	parent := s.find(h.parent)
	return parent != nil && s.isOmitted(parent)
}

// Purge removes all records from the object. Call it once [State.Done] returns true. If the store is an [Archiver], Purge first archives
// the records of finished handlers.
func (s *State) Purge(store Store, obj client.Object) error {
	var errs []error
	for _, h := range s.handlers {
		if h.active && h.record.Finished() {
			errs = append(errs, archive(store, obj, h.id, h.record))
		}
	}
	return errors.Join(append(errs, s.purge(store, obj, func(*handler) bool { return true }))...)
}

// PurgeStale removes the obsolete records when there is no cause to handle, so that no success or failure applies to a later cause. It
// keeps records whose delay hasn't passed yet. Otherwise, reverting an edit and making it again would shorten the delay.
func (s *State) PurgeStale(store Store, obj client.Object, now time.Time) error {
	return s.purge(store, obj, func(h *handler) bool { return !s.delayed(h, now) })
}

func (s *State) purge(store Store, obj client.Object, match func(*handler) bool) error {
	var changes []recordChange
	for i := range s.handlers {
		if h := &s.handlers[i]; h.stored && (h.active || !h.kept) && match(h) {
			changes = append(changes, h.purges()...)
		}
	}
	return applyChanges(store, obj, changes)
}

// purges returns the changes that remove the records of a handler and its sub-handlers.
func (h *handler) purges() []recordChange {
	changes := []recordChange{{id: h.id}}
	if h.earlier != "" {
		changes = append(changes, recordChange{id: h.earlier})
	}
	for _, id := range h.record.Subrefs {
		changes = append(changes, recordChange{id: id})
	}
	return changes
}

// maxMessage limits stored error messages, in bytes, because the annotations of an object are limited.
const maxMessage = 1024

// TruncateMessages cuts the messages in all records to the given number of bytes. Use it if longer messages don't fit on the object.
func (s *State) TruncateMessages(limit int) {
	for i := range s.handlers {
		record := &s.handlers[i].record
		record.Message = truncate(record.Message, limit)
	}
}

func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}
