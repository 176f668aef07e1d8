package progress

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Store keeps the records of handlers on objects. Its methods read and change the object in
// memory only; writing it to the API server is the caller's part.
//
// kopf: settings.persistence.progress_storage.
type Store interface {
	// Fetch returns the record of an id, nil if there is none. An error means that something is
	// stored which cannot be read; callers go on as if it were not there.
	Fetch(obj client.Object, id string) (*Record, error)
	// Store puts the record of an id on the object.
	Store(obj client.Object, id string, record Record) error
	// Purge removes all traces of an id from the object.
	Purge(obj client.Object, id string) error
	// Clear removes what the store itself writes from the JSON form of an object, so that
	// progress does not look like a change.
	Clear(essence map[string]any)
}

// A KeyChecker is a [Store] that can tell beforehand which ids it is able to keep.
type KeyChecker interface {
	// Key returns the key an id is stored under (two ids with one key get into each other's way),
	// or an error that says what is wrong with the id.
	Key(id string) (string, error)
}

// A Checker is a [Store] or a [Baseline] that can tell beforehand that it will not work.
type Checker interface {
	// Check returns what is wrong with the way it was made, and what to do.
	Check() error
}

// Annotations keeps each record in an annotation of its own, under the prefix (default
// [DefaultPrefix] if empty).
//
// kopf: AnnotationsProgressStorage.
func Annotations(prefix string) Store { return annotationStore{keysOf(prefix)} }

// AnnotationsV2 is [Annotations] without the second key that long ids have for the sake of older versions
// of kopf: such keys are neither written nor read nor purged. It is for operators without that past: a
// record that is left under an older key counts again as soon as [Annotations], or kopf, reads it.
//
// kopf: AnnotationsProgressStorage(v1=False).
func AnnotationsV2(prefix string) Store { return annotationStore{keysOf(prefix).onlyV2()} }

type annotationStore struct{ keys annotationKeys }

func (s annotationStore) Key(id string) (string, error) { return s.keys.check(id) }

func (s annotationStore) Fetch(obj client.Object, id string) (*Record, error) {
	var problems []error
	for key, value := range s.keys.values(obj, id) {
		record, err := decodeRecord([]byte(value))
		if err == nil {
			return record, errors.Join(problems...)
		}
		problems = append(problems, &UnreadableError{Place: "annotation " + key, Err: err})
	}
	return nil, errors.Join(problems...)
}

func (s annotationStore) Store(obj client.Object, id string, record Record) error {
	text, err := record.MarshalJSON()
	if err != nil {
		return err
	}
	s.keys.write(obj, id, string(text))
	return nil
}

func (s annotationStore) Purge(obj client.Object, id string) error {
	s.keys.remove(obj, id)
	return nil
}

func (s annotationStore) holds(obj client.Object, id string) bool { return s.keys.has(obj, id) }

func (s annotationStore) Clear(essence map[string]any) { s.keys.clear(essence) }

// Smart is the default: it writes annotations under [DefaultPrefix], and also reads the records
// that older operators kept in status.kopf.progress. Purging removes both.
//
// kopf: SmartProgressStorage.
func Smart() Store {
	return smartStore{annotationStore{keysOf("")}, statusStore{defaultProgressField}}
}

type smartStore struct {
	annotations annotationStore
	legacy      statusStore
}

func (s smartStore) Key(id string) (string, error) { return s.annotations.Key(id) }

func (s smartStore) Fetch(obj client.Object, id string) (*Record, error) {
	record, err := s.annotations.Fetch(obj, id)
	if record != nil {
		return record, err
	}
	legacy, legacyErr := s.legacy.Fetch(obj, id)
	return legacy, errors.Join(err, legacyErr)
}

func (s smartStore) Store(obj client.Object, id string, record Record) error {
	return s.annotations.Store(obj, id, record)
}

func (s smartStore) Purge(obj client.Object, id string) error {
	return errors.Join(s.annotations.Purge(obj, id), s.legacy.Purge(obj, id))
}

func (s smartStore) holds(obj client.Object, id string) bool {
	return s.annotations.holds(obj, id) || s.legacy.holds(obj, id)
}

func (s smartStore) Clear(essence map[string]any) {
	s.annotations.Clear(essence)
	s.legacy.Clear(essence)
}

// An UnreadableError says that stored state is broken: not JSON, or not of the expected form.
type UnreadableError struct {
	Place string // where on the object it is
	Err   error
}

func (e *UnreadableError) Error() string {
	return "unreadable state in " + e.Place + " (taken as absent): " + e.Err.Error()
}

func (e *UnreadableError) Unwrap() error { return e.Err }
