package progress

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Store reads and writes the records of handlers. Its methods change the object only in memory; the caller writes it to the API server.
// The methods must be safe for concurrent use with different objects. They must replace maps of the object instead of modifying them,
// because the object can share its maps with a cache.
//
// Equivalent in kopf: settings.persistence.progress_storage.
type Store interface {
	// Fetch returns the record of the handler with this id, or nil if there is none. If a stored value can't be decoded, Fetch treats it
	// as absent and returns an error. The record is then the one stored in another place, or nil.
	Fetch(obj client.Object, id string) (*Record, error)
	// Store writes the record of the handler with this id to the object.
	Store(obj client.Object, id string, record Record) error
	// Purge removes all values of the handler with this id from the object.
	Purge(obj client.Object, id string) error
	// Clear removes the store's values from an object in JSON form, so that change detection ignores them.
	Clear(essence map[string]any)
}

// A KeyChecker is a [Store] that can validate ids before it stores anything.
type KeyChecker interface {
	// Key returns the key of an id, or an error if the id is invalid. Two ids with the same key conflict.
	Key(id string) (string, error)
}

// A Checker is a [Store] or a [Baseline] that can validate its configuration.
type Checker interface {
	// Check returns an error that says what is invalid and how to fix it.
	Check() error
}

// An AnnotationUser is a [Store] or a [Baseline] that can say whether it changes only an object's annotations. If so, package kopf
// copies and compares only the object's metadata, which is faster.
type AnnotationUser interface {
	// UsesOnlyAnnotations reports whether the methods read only the metadata of this object and change only its annotations. If so, they
	// may be called with a PartialObjectMetadata instead of the object.
	UsesOnlyAnnotations(obj client.Object) bool
}

// UsesOnlyAnnotations reports whether a [Store] or a [Baseline] is an [AnnotationUser] and uses only the annotations of the object.
func UsesOnlyAnnotations(store any, obj client.Object) bool {
	user, ok := store.(AnnotationUser)
	return ok && user.UsesOnlyAnnotations(obj)
}

// Annotations stores each record in an annotation with the given prefix. An empty prefix means [DefaultPrefix].
//
// Equivalent in kopf: AnnotationsProgressStorage.
func Annotations(prefix string) Store { return annotationStore{keysOf(prefix)} }

// AnnotationsV2 is like [Annotations], but stores a long id under one key only. [Annotations] also uses a second key, in the format of
// older versions of kopf, which AnnotationsV2 doesn't write, read or purge. Use it only for objects that kopf and [Annotations] have never
// handled. Otherwise a stale record under the second key stays on the object, and [Annotations] or kopf may use it later.
//
// Equivalent in kopf: AnnotationsProgressStorage(v1=False).
func AnnotationsV2(prefix string) Store { return annotationStore{keysOf(prefix).withoutV1()} }

type annotationStore struct{ keys annotationKeys }

func (s annotationStore) Key(id string) (string, error) { return s.keys.check(id) }

func (s annotationStore) Fetch(obj client.Object, id string) (*Record, error) {
	return fetch(s, obj, id)
}

func (s annotationStore) Store(obj client.Object, id string, record Record) error {
	return s.change(obj, []recordChange{{id, &record}})
}

func (s annotationStore) Purge(obj client.Object, id string) error {
	return s.change(obj, []recordChange{{id: id}})
}

// reader implements [bulkStore].
func (s annotationStore) reader(obj client.Object) recordReader { return new(s.readerOf(obj)) }

func (s annotationStore) readerOf(obj client.Object) annotationReader {
	return annotationReader{s.keys, obj.GetAnnotations(), isOwnedReplicaSet(obj)}
}

type annotationReader struct {
	keys        annotationKeys
	annotations map[string]string
	owned       bool // see isOwnedReplicaSet
}

func (r *annotationReader) read(id string) (record *Record, stored bool, err error) {
	if len(r.annotations) == 0 {
		return nil, false, nil
	}
	var errs []error
	for _, key := range r.keys.named(id, r.owned) {
		value, found := r.annotations[key]
		if !found {
			continue
		}
		stored = true
		record, err := decodeRecord([]byte(value))
		if record != nil {
			return record, stored, errors.Join(errs...)
		}
		if err != nil {
			errs = append(errs, &UnreadableError{Place: "annotation " + key, Err: err})
		}
	}
	return nil, stored, errors.Join(errs...)
}

// change implements [bulkStore].
func (s annotationStore) change(obj client.Object, changes []recordChange) error {
	before := obj.GetAnnotations()
	annotations, owned := cloneAnnotations(before), isOwnedReplicaSet(obj)
	var errs []error
	stores := false
	for _, c := range changes {
		if c.record == nil {
			for _, key := range s.keys.named(c.id, owned) {
				delete(annotations, key)
			}
			continue
		}
		text, err := c.record.MarshalJSON()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		stores = true
		for _, key := range s.keys.named(c.id, owned) {
			annotations[key] = string(text)
		}
	}
	if stores {
		s.keys.mark(annotations)
	}
	if stores || len(before) > 0 {
		s.keys.removeTouch(obj, annotations)
		obj.SetAnnotations(annotations)
	}
	return errors.Join(errs...)
}

// UsesOnlyAnnotations implements [AnnotationUser].
func (s annotationStore) UsesOnlyAnnotations(client.Object) bool { return true }

func (s annotationStore) Clear(essence map[string]any) { s.keys.clear(essence) }

// Smart is the default store. It writes annotations with [DefaultPrefix], and also reads the records of older operators in
// status.kopf.progress. Purge removes them from both places. Objects don't need to have this field.
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

func (s smartStore) Fetch(obj client.Object, id string) (*Record, error) { return fetch(s, obj, id) }

func (s smartStore) Store(obj client.Object, id string, record Record) error {
	return s.annotations.Store(obj, id, record)
}

func (s smartStore) Purge(obj client.Object, id string) error {
	return s.change(obj, []recordChange{{id: id}})
}

// reader implements [bulkStore].
func (s smartStore) reader(obj client.Object) recordReader {
	return &smartReader{s.annotations.readerOf(obj), s.legacy.readerOf(obj)}
}

type smartReader struct {
	annotations annotationReader
	legacy      statusReader
}

func (r *smartReader) read(id string) (*Record, bool, error) {
	record, stored, err := r.annotations.read(id)
	if record != nil {
		return record, stored, err
	}
	legacy, legacyStored, legacyErr := r.legacy.read(id)
	return legacy, stored || legacyStored, errors.Join(err, legacyErr)
}

// change implements [bulkStore]. It doesn't write records to the status.
func (s smartStore) change(obj client.Object, changes []recordChange) error {
	var purges []recordChange
	for _, c := range changes {
		if c.record == nil {
			purges = append(purges, c)
		}
	}
	return errors.Join(s.annotations.change(obj, changes), applyChanges(s.legacy, obj, purges))
}

// UsesOnlyAnnotations implements [AnnotationUser]. It returns false if the status contains records, because then Purge must change the
// status.
func (s smartStore) UsesOnlyAnnotations(obj client.Object) bool {
	value, err := s.legacy.field.read(obj)
	return value == nil && err == nil && s.annotations.UsesOnlyAnnotations(obj)
}

func (s smartStore) Clear(essence map[string]any) {
	s.annotations.Clear(essence)
	s.legacy.Clear(essence)
}

// An UnreadableError reports stored data that can't be decoded, because it isn't JSON or doesn't have the expected form.
type UnreadableError struct {
	Place string // annotation or field of the object
	Err   error
}

func (e *UnreadableError) Error() string {
	return "unreadable record in " + e.Place + ": " + e.Err.Error()
}

func (e *UnreadableError) Unwrap() error { return e.Err }
