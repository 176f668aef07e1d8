package progress

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Store reads and writes the records of handlers. Its methods change the object in memory only. The caller writes
// the object to the API server. The methods must be safe for concurrent use with different objects. They must replace maps of the
// object instead of modifying them, because a cache may share the maps.
//
// Equivalent in kopf: settings.persistence.progress_storage.
type Store interface {
	// Fetch returns the record of the handler with this id, or nil if the object has no such record. If a stored value
	// cannot be decoded, Fetch returns an error, and nil or the record from another place. Callers treat the value as absent.
	Fetch(obj client.Object, id string) (*Record, error)
	// Store writes the record of the handler with this id to the object.
	Store(obj client.Object, id string, record Record) error
	// Purge removes all values of the handler with this id from the object.
	Purge(obj client.Object, id string) error
	// Clear removes the values of the store from the JSON form of an object, so that change detection ignores them.
	Clear(essence map[string]any)
}

// A KeyChecker is a [Store] that can validate ids before it stores records.
type KeyChecker interface {
	// Key returns the key of an id, or an error if the id is invalid. Two ids with the same key conflict.
	Key(id string) (string, error)
}

// A Checker is a [Store] or a [Baseline] that can validate its configuration.
type Checker interface {
	// Check returns an error that describes the invalid configuration and how to fix it.
	Check() error
}

// An AnnotationUser is a [Store] or a [Baseline] that can report that it changes only annotations. Package kopf then copies and
// compares only the metadata of the object, which is faster.
type AnnotationUser interface {
	// UsesOnlyAnnotations reports whether the methods read only the metadata of this object and change only its
	// annotations. The methods may then be called with a PartialObjectMetadata instead of the object.
	UsesOnlyAnnotations(obj client.Object) bool
}

// UsesOnlyAnnotations reports whether a [Store] or a [Baseline] is an [AnnotationUser] and uses only the annotations of the object.
func UsesOnlyAnnotations(store any, obj client.Object) bool {
	user, ok := store.(AnnotationUser)
	return ok && user.UsesOnlyAnnotations(obj)
}

// Annotations stores each record in an annotation with the given prefix. An empty prefix selects [DefaultPrefix].
//
// Equivalent in kopf: AnnotationsProgressStorage.
func Annotations(prefix string) Store { return annotationStore{keysOf(prefix)} }

// AnnotationsV2 is like [Annotations], but stores a long id under one key only. [Annotations] also writes a second key in
// the format that older versions of kopf read. AnnotationsV2 does not write, read or purge the second key. Use it only for
// objects that kopf and [Annotations] never handled. Otherwise, a stale record under the second key remains on the object, and
// [Annotations] or kopf may use it later.
//
// Equivalent in kopf: AnnotationsProgressStorage(v1=False).
func AnnotationsV2(prefix string) Store { return annotationStore{keysOf(prefix).withoutV1()} }

type annotationStore struct{ keys annotationKeys }

func (s annotationStore) Key(id string) (string, error) { return s.keys.check(id) }

func (s annotationStore) Fetch(obj client.Object, id string) (*Record, error) {
	var errs []error
	for key, value := range s.keys.values(obj, id) {
		record, err := decodeRecord([]byte(value))
		if err == nil {
			return record, errors.Join(errs...)
		}
		errs = append(errs, &UnreadableError{Place: "annotation " + key, Err: err})
	}
	return nil, errors.Join(errs...)
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

// UsesOnlyAnnotations implements [AnnotationUser].
func (s annotationStore) UsesOnlyAnnotations(client.Object) bool { return true }

func (s annotationStore) isStored(obj client.Object, id string) bool { return s.keys.has(obj, id) }

func (s annotationStore) Clear(essence map[string]any) { s.keys.clear(essence) }

// Smart is the default store. It writes annotations with [DefaultPrefix] and also reads the records of older
// operators in status.kopf.progress. Purge removes the records from both places. Objects without this field are supported.
//
// Equivalent in kopf: SmartProgressStorage.
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

// UsesOnlyAnnotations implements [AnnotationUser]. It returns false if the status contains records, because Purge must then
// change the status.
func (s smartStore) UsesOnlyAnnotations(obj client.Object) bool {
	value, err := s.legacy.field.read(obj)
	return value == nil && err == nil && s.annotations.UsesOnlyAnnotations(obj)
}

func (s smartStore) isStored(obj client.Object, id string) bool {
	return s.annotations.isStored(obj, id) || s.legacy.isStored(obj, id)
}

func (s smartStore) Clear(essence map[string]any) {
	s.annotations.Clear(essence)
	s.legacy.Clear(essence)
}

// An UnreadableError reports stored data that cannot be decoded: it is not JSON or not of the expected form.
type UnreadableError struct {
	Place string // annotation or field of the object
	Err   error
}

func (e *UnreadableError) Error() string {
	return "unreadable record in " + e.Place + ": " + e.Err.Error()
}

func (e *UnreadableError) Unwrap() error { return e.Err }
