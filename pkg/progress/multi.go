package progress

import (
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Multi combines several stores. It reads a record from the first store that has it, and writes to and purges from all of them. Use
// Multi(new, old) to migrate while operators with the old store are still running.
//
// Equivalent in kopf: MultiProgressStorage.
func Multi(stores ...Store) Store { return multiStore(slices.Clone(stores)) }

type multiStore []Store

// Check implements [Checker].
func (m multiStore) Check() error { return checkMembers("Multi", m) }

// Fields implements [FieldUser].
func (m multiStore) Fields() []string { return fieldsOf(m) }

// Key implements [KeyChecker]. An id must be valid for all stores. It returns the first key that differs from the id, so that two ids with
// the same key in that store are detected as a conflict.
func (m multiStore) Key(id string) (string, error) {
	if id == "" {
		return "", errEmptyID
	}
	key := id
	var errs []error
	for _, store := range m {
		checker, ok := store.(KeyChecker)
		if !ok {
			continue
		}
		storeKey, err := checker.Key(id)
		errs = append(errs, err)
		if key == id {
			key = storeKey
		}
	}
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	return key, nil
}

func (m multiStore) Fetch(obj client.Object, id string) (*Record, error) { return fetch(m, obj, id) }

func (m multiStore) Store(obj client.Object, id string, record Record) error {
	return m.change(obj, []recordChange{{id, &record}})
}

func (m multiStore) Purge(obj client.Object, id string) error {
	return m.change(obj, []recordChange{{id: id}})
}

// reader implements [bulkStore].
func (m multiStore) reader(obj client.Object) recordReader {
	readers := make(multiReader, len(m))
	for i, store := range m {
		readers[i] = readerOf(store, obj)
	}
	return readers
}

type multiReader []recordReader

func (m multiReader) read(id string) (*Record, bool, error) {
	var errs []error
	isStored := false
	for _, reader := range m {
		record, stored, err := reader.read(id)
		errs, isStored = append(errs, err), isStored || stored
		if record != nil {
			return record, true, errors.Join(errs...)
		}
	}
	return nil, isStored, errors.Join(errs...)
}

// change implements [bulkStore].
func (m multiStore) change(obj client.Object, changes []recordChange) error {
	var errs []error
	for _, store := range m {
		errs = append(errs, applyChanges(store, obj, changes))
	}
	return errors.Join(errs...)
}

// Archive implements [Archiver] for the stores that support it.
func (m multiStore) Archive(obj client.Object, id string, record Record) error {
	var errs []error
	for _, store := range m {
		errs = append(errs, archive(store, obj, id, record))
	}
	return errors.Join(errs...)
}

// UsesOnlyAnnotations implements [AnnotationUser].
func (m multiStore) UsesOnlyAnnotations(obj client.Object) bool { return allUseOnlyAnnotations(m, obj) }

func (m multiStore) Clear(essence map[string]any) {
	for _, store := range m {
		store.Clear(essence)
	}
}

// MultiBaseline combines several baselines. It reads the essence from the first baseline that has one, and writes it to all of them.
//
// Equivalent in kopf: MultiDiffBaseStorage.
func MultiBaseline(baselines ...Baseline) Baseline { return multiBaseline(slices.Clone(baselines)) }

type multiBaseline []Baseline

// Check implements [Checker].
func (m multiBaseline) Check() error { return checkMembers("MultiBaseline", m) }

// Fields implements [FieldUser].
func (m multiBaseline) Fields() []string { return fieldsOf(m) }

// IgnoredFields returns the paths of the fields that members ignore.
func (m multiBaseline) IgnoredFields() (paths [][]string) {
	for _, baseline := range m {
		paths = append(paths, ignoredFieldsOf(baseline)...)
	}
	return paths
}

func (m multiBaseline) Fetch(obj client.Object) []byte {
	for _, baseline := range m {
		if essence := baseline.Fetch(obj); essence != nil {
			return essence
		}
	}
	return nil
}

func (m multiBaseline) Store(obj client.Object, essence []byte) {
	for _, baseline := range m {
		baseline.Store(obj, essence)
	}
}

// UsesOnlyAnnotations implements [AnnotationUser].
func (m multiBaseline) UsesOnlyAnnotations(obj client.Object) bool {
	return allUseOnlyAnnotations(m, obj)
}

func (m multiBaseline) ClearStored(content map[string]any) {
	for _, baseline := range m {
		ClearStored(baseline, content)
	}
}

func (m multiBaseline) Clear(essence map[string]any) {
	for _, baseline := range m {
		baseline.Clear(essence)
	}
}

func allUseOnlyAnnotations[T any](parts []T, obj client.Object) bool {
	return !slices.ContainsFunc(parts, func(part T) bool { return !UsesOnlyAnnotations(part, obj) })
}

func checkMembers[T any](function string, parts []T) error {
	if len(parts) == 0 {
		return fmt.Errorf("%s has no stores: pass at least one", function)
	}
	var errs []error
	for i, part := range parts {
		if any(part) == nil {
			errs = append(errs, fmt.Errorf("%s: store %d is nil: remove it", function, i+1))
		}
		if checker, ok := any(part).(Checker); ok {
			errs = append(errs, checker.Check())
		}
	}
	return errors.Join(errs...)
}

func fieldsOf[T any](parts []T) []string {
	var fields []string
	for _, part := range parts {
		if user, ok := any(part).(FieldUser); ok {
			fields = append(fields, user.Fields()...)
		}
	}
	return fields
}
