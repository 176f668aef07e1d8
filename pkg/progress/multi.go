package progress

import (
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Multi keeps the records in several stores at once: a record is read from the first that has it, and
// written to, or purged from, all. It is for moving from one store to another while old operators
// still run: Multi(new, old).
//
// kopf: MultiProgressStorage.
func Multi(stores ...Store) Store { return multiStore(slices.Clone(stores)) }

type multiStore []Store

// Check implements [Checker].
func (m multiStore) Check() error { return checkParts("Multi", m) }

// Fields implements [FieldUser].
func (m multiStore) Fields() []string { return fieldsOf(m) }

// Key implements [KeyChecker]: an id must be good for all stores, and ids that clash in one of them
// must clash here. Therefore the key is that of the first store which does not keep ids as they are.
func (m multiStore) Key(id string) (string, error) {
	if id == "" {
		return "", errEmptyID
	}
	key := id
	var problems []error
	for _, store := range m {
		checker, ok := store.(KeyChecker)
		if !ok {
			continue
		}
		its, err := checker.Key(id)
		problems = append(problems, err)
		if key == id {
			key = its
		}
	}
	if err := errors.Join(problems...); err != nil {
		return "", err
	}
	return key, nil
}

func (m multiStore) Fetch(obj client.Object, id string) (*Record, error) {
	var problems []error
	for _, store := range m {
		record, err := store.Fetch(obj, id)
		problems = append(problems, err)
		if record != nil {
			return record, errors.Join(problems...)
		}
	}
	return nil, errors.Join(problems...)
}

func (m multiStore) Store(obj client.Object, id string, record Record) error {
	var problems []error
	for _, store := range m {
		problems = append(problems, store.Store(obj, id, record))
	}
	return errors.Join(problems...)
}

func (m multiStore) Purge(obj client.Object, id string) error {
	var problems []error
	for _, store := range m {
		problems = append(problems, store.Purge(obj, id))
	}
	return errors.Join(problems...)
}

func (m multiStore) holds(obj client.Object, id string) bool {
	return slices.ContainsFunc(m, func(store Store) bool { return holdsNull(store, obj, id) })
}

func (m multiStore) Clear(essence map[string]any) {
	for _, store := range m {
		store.Clear(essence)
	}
}

// MultiBaseline keeps the essence in several places at once: it is read from the first that has one,
// and written to all.
//
// kopf: MultiDiffBaseStorage.
func MultiBaseline(baselines ...Baseline) Baseline { return multiBaseline(slices.Clone(baselines)) }

type multiBaseline []Baseline

// Check implements [Checker].
func (m multiBaseline) Check() error { return checkParts("MultiBaseline", m) }

// Fields implements [FieldUser].
func (m multiBaseline) Fields() []string { return fieldsOf(m) }

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

func (m multiBaseline) Clear(essence map[string]any) {
	for _, baseline := range m {
		baseline.Clear(essence)
	}
}

func checkParts[T any](what string, parts []T) error {
	if len(parts) == 0 {
		return fmt.Errorf("%s() has nothing to write to: give it at least one store", what)
	}
	var problems []error
	for i, part := range parts {
		if any(part) == nil {
			problems = append(problems, fmt.Errorf("%s: number %d of its stores is nil: leave it out", what, i+1))
		}
		if checker, ok := any(part).(Checker); ok {
			problems = append(problems, checker.Check())
		}
	}
	return errors.Join(problems...)
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
