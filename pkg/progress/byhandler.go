package progress

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ByHandler returns a store that uses separate stores for some handlers. The keys of stores are the ids of handlers. The records of sub-handlers are in the
// store of their handler, unless stores has their ids. All other records are in the store other.
//
// kopf has no equivalent.
func ByHandler(other Store, stores map[string]Store) Store {
	all := []Store{other}
	for _, id := range slices.Sorted(maps.Keys(stores)) {
		if !slices.ContainsFunc(all, func(store Store) bool { return same(store, stores[id]) }) {
			all = append(all, stores[id])
		}
	}
	return handlerStores{multiStore: multiStore(all), stores: maps.Clone(stores)}
}

// same reports whether two values are the same store. It returns false for stores of a type that cannot be compared.
func same(one, other Store) (equal bool) {
	defer func() { _ = recover() }() // the types cannot be compared
	return one == other
}

// handlerStores overrides the methods of multiStore that have an id as a parameter: they use only the store of this id.
type handlerStores struct {
	multiStore
	stores map[string]Store
}

// of returns the store of an id.
func (s handlerStores) of(id string) Store {
	for parent := id; ; {
		if store, found := s.stores[parent]; found {
			return store
		}
		end := strings.LastIndex(parent, "/")
		if end < 0 {
			return s.multiStore[0]
		}
		parent = parent[:end]
	}
}

func (s handlerStores) Check() error {
	errs := []error{checkMembers("ByHandler", s.multiStore)}
	for _, id := range slices.Sorted(maps.Keys(s.stores)) {
		if id == "" {
			errs = append(errs, errEmptyID)
		}
	}
	return errors.Join(errs...)
}

func (s handlerStores) Key(id string) (string, error) { return multiStore{s.of(id)}.Key(id) }

func (s handlerStores) Fetch(obj client.Object, id string) (*Record, error) {
	return s.of(id).Fetch(obj, id)
}

func (s handlerStores) Store(obj client.Object, id string, record Record) error {
	return s.of(id).Store(obj, id, record)
}

func (s handlerStores) Purge(obj client.Object, id string) error { return s.of(id).Purge(obj, id) }

func (s handlerStores) isStored(obj client.Object, id string) bool {
	return isStored(s.of(id), obj, id)
}

// Archive implements [Archiver].
func (s handlerStores) Archive(obj client.Object, id string, record Record) error {
	return archive(s.of(id), obj, id, record)
}

// Sweep implements [Sweeper]. A store keeps only records of its own handlers.
func (s handlerStores) Sweep(obj client.Object, known []string) error {
	var errs []error
	for _, store := range s.multiStore {
		if sweeper, ok := store.(Sweeper); ok {
			errs = append(errs, sweeper.Sweep(obj, slices.DeleteFunc(slices.Clone(known), func(id string) bool { return !same(s.of(id), store) })))
		}
	}
	return errors.Join(errs...)
}

// InMemory returns a store that keeps records in the memory of the process. The operator then does not write records to objects. After a restart, it
// calls all handlers of unfinished cycles again, and their attempts start from 0. Each call returns a new store.
//
// kopf has no equivalent.
func InMemory() Store { return &memoryStore{records: map[types.UID]map[string]Record{}} }

// IsInMemory reports whether a store is one of [InMemory].
func IsInMemory(s Store) bool {
	_, is := s.(*memoryStore)
	return is
}

type memoryStore struct {
	mu      sync.Mutex
	records map[types.UID]map[string]Record
}

func (s *memoryStore) Fetch(obj client.Object, id string) (*Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	record, found := s.records[obj.GetUID()][id]
	if !found {
		return nil, nil
	}
	record.Subrefs = slices.Clone(record.Subrefs)
	return &record, nil
}

func (s *memoryStore) Store(obj client.Object, id string, record Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records[obj.GetUID()] == nil {
		s.records[obj.GetUID()] = map[string]Record{}
	}
	record.Subrefs = slices.Clone(record.Subrefs)
	s.records[obj.GetUID()][id] = record
	return nil
}

func (s *memoryStore) Purge(obj client.Object, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.records[obj.GetUID()], id); len(s.records[obj.GetUID()]) == 0 {
		delete(s.records, obj.GetUID())
	}
	return nil
}

// Clear does nothing: the store does not change objects.
func (s *memoryStore) Clear(map[string]any) {}

// UsesOnlyAnnotations implements [AnnotationUser].
func (s *memoryStore) UsesOnlyAnnotations(client.Object) bool { return true }

// Forget implements [Forgetter].
func (s *memoryStore) Forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, uid)
}

// A Forgetter is a [Store] with data in memory. Package kopf calls Forget when the watch reports the deletion of an object.
type Forgetter interface{ Forget(uid types.UID) }

// Forget implements [Forgetter] for the stores that support it.
func (m multiStore) Forget(uid types.UID) {
	for _, store := range m {
		if forgetter, ok := store.(Forgetter); ok {
			forgetter.Forget(uid)
		}
	}
}
