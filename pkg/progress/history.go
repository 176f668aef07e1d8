package progress

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// HistoryAnnotation is the annotation in which [WithHistory] stores the finished handlers.
const HistoryAnnotation = "kopf-runtime.dev/history"

const (
	maxHistory        = 100
	maxHistoryMessage = 256
)

// An Archiver is a [Store] that keeps the records of finished handlers.
type Archiver interface {
	// Archive stores the record of a finished handler. [State.Purge] calls it for each finished handler before removing the record.
	Archive(obj client.Object, id string, record Record) error
}

func archive(store Store, obj client.Object, id string, record Record) error {
	if archiver, ok := store.(Archiver); ok {
		return archiver.Archive(obj, id, record)
	}
	return nil
}

// WithHistory returns a store that also keeps the last finished handlers of each object in the annotation [HistoryAnnotation]. The
// parameter handlers limits the number of entries, from 1 to 100. Messages are cut at 256 bytes. The history doesn't cost an extra request,
// because the operator writes it when it completes a cycle. Operators that handle the same objects share the history. Use [History] to read
// it.
//
// kopf has no equivalent.
func WithHistory(store Store, handlers int) Store {
	return historyStore{multiStore: multiStore{store}, limit: handlers}
}

// A HistoryEntry is a finished handler in the history of an object.
type HistoryEntry struct {
	// Handler is the id of the handler.
	Handler string
	Record
}

// History returns the finished handlers that [WithHistory] has stored, oldest first. It returns an error if the annotation can't be
// decoded.
func History(obj client.Object) ([]HistoryEntry, error) {
	text, found := obj.GetAnnotations()[HistoryAnnotation]
	if !found {
		return nil, nil
	}
	var documents []json.RawMessage
	if err := json.Unmarshal([]byte(text), &documents); err != nil {
		return nil, &UnreadableError{Place: "annotation " + HistoryAnnotation, Err: err}
	}
	entries := make([]HistoryEntry, 0, len(documents))
	for _, document := range documents {
		entry, err := decodeEntry(document)
		if err != nil {
			return nil, &UnreadableError{Place: "annotation " + HistoryAnnotation, Err: err}
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

func decodeEntry(document json.RawMessage) (HistoryEntry, error) {
	var id struct{ Handler string }
	if err := json.Unmarshal(document, &id); err != nil {
		return HistoryEntry{}, err
	}
	record, err := decodeRecord(document)
	if record == nil || err != nil {
		return HistoryEntry{}, errors.Join(errors.New("an entry is not a record"), err)
	}
	return HistoryEntry{Handler: id.Handler, Record: *record}, nil
}

type historyStore struct {
	multiStore
	limit int
}

// Check implements [Checker].
func (s historyStore) Check() error {
	if s.limit < 1 || s.limit > maxHistory {
		return fmt.Errorf("WithHistory(%d): the number of handlers must be from 1 to %d", s.limit, maxHistory)
	}
	if _, isNested := s.multiStore[0].(historyStore); isNested {
		return errors.New("WithHistory contains another WithHistory, and both would add each handler to the history: remove one of them")
	}
	return checkMembers("WithHistory", s.multiStore)
}

// Archive implements [Archiver]. It first calls the wrapped store, with the whole record.
func (s historyStore) Archive(obj client.Object, id string, record Record) error {
	return errors.Join(s.multiStore.Archive(obj, id, record), s.appendEntry(obj, id, record))
}

// appendEntry adds a finished handler to the annotation.
func (s historyStore) appendEntry(obj client.Object, id string, record Record) error {
	documents := []json.RawMessage{}
	if text, found := obj.GetAnnotations()[HistoryAnnotation]; found && json.Unmarshal([]byte(text), &documents) != nil {
		documents = nil // replace an unreadable history
	}
	documents = slices.DeleteFunc(documents, func(document json.RawMessage) bool {
		_, err := decodeEntry(document)
		return err != nil
	})
	record.Message, record.Subrefs = truncate(record.Message, maxHistoryMessage), nil
	text, err := record.MarshalJSON()
	if err != nil {
		return err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	fields["handler"] = id
	document, err := EncodeJSON(fields)
	if err != nil {
		return err
	}
	documents = append(documents, document)
	all, err := EncodeJSON(documents[max(0, len(documents)-s.limit):])
	if err != nil {
		return err
	}
	annotations := cloneAnnotations(obj.GetAnnotations())
	annotations[HistoryAnnotation] = string(all)
	obj.SetAnnotations(annotations)
	return nil
}

// Clear implements [Store].
func (s historyStore) Clear(essence map[string]any) {
	s.multiStore.Clear(essence)
	clearAnnotations(essence, func(key string) bool { return key == HistoryAnnotation })
}
