package progress

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ByHandler returns a store that uses separate stores for some handlers. The keys of stores are handler ids. Sub-handlers use the store of
// their handler, unless they have their own. All other handlers use the store other.
//
// kopf has no equivalent.
func ByHandler(other Store, stores map[string]Store) Store {
	all, indexes := []Store{other}, map[string]int{}
	for _, id := range slices.Sorted(maps.Keys(stores)) {
		i := slices.IndexFunc(all, func(store Store) bool { return same(store, stores[id]) })
		if i < 0 {
			i = len(all)
			all = append(all, stores[id])
		}
		indexes[id] = i
	}
	return handlerStores{multiStore: multiStore(all), indexes: indexes}
}

// same reports whether two values are the same store. It returns false for types that can't be compared.
func same(one, other Store) (equal bool) { return reflect.ValueOf(one).Comparable() && one == other }

// handlerStores overrides the methods of multiStore that take an id, so that they use only the store of this id.
type handlerStores struct {
	multiStore
	indexes map[string]int // positions in multiStore, by handler id
}

// indexOf returns the position of the store of a handler. A sub-handler without its own store uses that of its closest ancestor.
func (s handlerStores) indexOf(id string) int {
	if i, found := s.indexes[id]; found {
		return i
	}
	closest := ""
	for parent := range s.indexes { // don't shorten the id step by step: a record may name a sub-handler with thousands of slashes
		if len(parent) > len(closest) && len(parent) < len(id) && id[len(parent)] == '/' && strings.HasPrefix(id, parent) {
			closest = parent
		}
	}
	return s.indexes[closest] // 0 if there is none
}

func (s handlerStores) of(id string) Store { return s.multiStore[s.indexOf(id)] }

func (s handlerStores) Check() error {
	errs := []error{checkMembers("ByHandler", s.multiStore)}
	if _, found := s.indexes[""]; found {
		errs = append(errs, errEmptyID)
	}
	return errors.Join(errs...)
}

func (s handlerStores) Key(id string) (string, error) { return multiStore{s.of(id)}.Key(id) }

func (s handlerStores) Fetch(obj client.Object, id string) (*Record, error) { return fetch(s, obj, id) }

func (s handlerStores) Store(obj client.Object, id string, record Record) error {
	return s.of(id).Store(obj, id, record)
}

func (s handlerStores) Purge(obj client.Object, id string) error { return s.of(id).Purge(obj, id) }

// reader implements [bulkStore].
func (s handlerStores) reader(obj client.Object) recordReader {
	return handlerReader{s, s.multiStore.reader(obj).(multiReader)}
}

type handlerReader struct {
	stores  handlerStores
	readers multiReader
}

func (r handlerReader) read(id string) (*Record, bool, error) {
	return r.readers[r.stores.indexOf(id)].read(id)
}

// change implements [bulkStore].
func (s handlerStores) change(obj client.Object, changes []recordChange) error {
	byStore := make([][]recordChange, len(s.multiStore))
	for _, c := range changes {
		i := s.indexOf(c.id)
		byStore[i] = append(byStore[i], c)
	}
	var errs []error
	for i, store := range s.multiStore {
		errs = append(errs, applyChanges(store, obj, byStore[i]))
	}
	return errors.Join(errs...)
}

// Archive implements [Archiver].
func (s handlerStores) Archive(obj client.Object, id string, record Record) error {
	return archive(s.of(id), obj, id, record)
}

// Sweep implements [Sweeper]. Each store keeps only the records of its own handlers.
func (s handlerStores) Sweep(obj client.Object, known []string) error {
	var errs []error
	for i, store := range s.multiStore {
		if sweeper, ok := store.(Sweeper); ok {
			errs = append(errs, sweeper.Sweep(obj, slices.DeleteFunc(slices.Clone(known), func(id string) bool { return s.indexOf(id) != i })))
		}
	}
	return errors.Join(errs...)
}

// InMemory returns a new store that keeps records in the memory of the process instead of writing them to objects. After a restart, the
// operator calls all handlers of unfinished cycles again, starting with attempt 0.
//
// kopf has no equivalent.
func InMemory() Store { return &memoryStore{records: map[types.UID]map[string]Record{}} }

// IsInMemory reports whether a store was created with [InMemory].
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

// Clear does nothing, because the store doesn't change objects.
func (s *memoryStore) Clear(map[string]any) {}

// UsesOnlyAnnotations implements [AnnotationUser].
func (s *memoryStore) UsesOnlyAnnotations(client.Object) bool { return true }

// Forget implements [Forgetter].
func (s *memoryStore) Forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, uid)
}

// A Forgetter is a [Store] with data in memory. Package kopf calls Forget when an object is deleted or goes out of scope.
type Forgetter interface{ Forget(uid types.UID) }

// Forget implements [Forgetter] for the stores that support it.
func (m multiStore) Forget(uid types.UID) {
	for _, store := range m {
		if forgetter, ok := store.(Forgetter); ok {
			forgetter.Forget(uid)
		}
	}
}
