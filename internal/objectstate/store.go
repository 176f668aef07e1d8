package objectstate

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Store holds the states of all objects of one kind.
type Store[W any] struct {
	mu      sync.Mutex
	states  map[types.UID]*State[W]
	current names[W]                             // the states of existing objects by key
	deleted map[types.NamespacedName][]Tombstone // of objects that have left the cache
	queued  map[types.NamespacedName]time.Time   // when the key was queued
	skipped map[types.NamespacedName]string      // the resource versions of events that predicates have rejected, until the next reconcile
	dirty   map[types.NamespacedName][]dirtyMark // the changes that made the key dirty
	events  map[types.NamespacedName][]Event     // events that TakeEvents has not returned yet

	newer             map[types.UID]client.Object // the newest known states of objects, if they are not the observed states
	ownVersions       map[types.UID][]OwnVersion  // of writes of this process, until the watch delivers them
	replacedBaselines map[types.UID][]byte        // the baselines before another client replaced them
	onDeletion        map[types.UID]func()        // called once when the object is being deleted or is known to be deleted

	queue        queue // of the controller; nil before its start
	longestQueue int   // the largest length of queued since its map was made
	options      Options
}

// Options select the data that a [Store] records in addition to the states of objects.
type Options struct {
	// RecordEvents records every observed event for [Store.TakeEvents].
	RecordEvents bool
	// TrackDirty records the resource versions that mark an object as dirty, for [Store.TakeForeignChanges].
	TrackDirty bool
	// MarkDeletions also marks an object as dirty when it no longer exists. The caller must then call [Store.TakeForeignChanges] for its key.
	MarkDeletions bool
	// ExistedAtStart reports whether an object existed when the process started, although the first listing of the informer lacked it. obj is the first
	// observed state of the object. If ExistedAtStart is nil, the first listing is complete.
	ExistedAtStart func(obj client.Object) bool
	// ReadBaseline returns the stored baseline of an object, for [Store.BaselineBeforeReplacement]. If ReadBaseline is nil, the store does not compare baselines.
	ReadBaseline func(client.Object) []byte
}

// New returns an empty store.
func New[W any](options Options) *Store[W] {
	return &Store[W]{
		options: options,
		states:  map[types.UID]*State[W]{},
		current: newNames[W](),
		deleted: map[types.NamespacedName][]Tombstone{},
		queued:  map[types.NamespacedName]time.Time{},
		skipped: map[types.NamespacedName]string{},
		dirty:   map[types.NamespacedName][]dirtyMark{},
		events:  map[types.NamespacedName][]Event{},

		newer:             map[types.UID]client.Object{},
		ownVersions:       map[types.UID][]OwnVersion{},
		replacedBaselines: map[types.UID][]byte{},
		onDeletion:        map[types.UID]func(){},
	}
}

// Observe records an existing object, and marks its key as dirty if [Options.TrackDirty] is set. listedAtStart is true if the object was in the first listing of the informer.
func (s *Store[W]) Observe(obj client.Object, listedAtStart bool) {
	s.observe(obj, listedAtStart, true)
}

func (s *Store[W]) observe(obj client.Object, listedAtStart, isChange bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, known := s.states[obj.GetUID()]
	if !known {
		state = &State[W]{ExistedAtStart: listedAtStart || s.options.ExistedAtStart != nil && s.options.ExistedAtStart(obj)}
	}
	mark := dirtyMark{version: obj.GetResourceVersion()}
	if state.observed != nil {
		mark.previous = state.observed.GetResourceVersion()
	}
	s.setObserved(state, obj)
	s.unmarkLeft(obj)
	if obj.GetDeletionTimestamp() != nil {
		s.notifyDeletion(obj.GetUID())
	}
	if isChange {
		s.markDirty(client.ObjectKeyFromObject(obj), mark)
	}
}

// Tombstone is the last known state of an object that has left the cache. The object is deleted, or the cache does not select it any more.
type Tombstone struct {
	client.Object
	// Inferred is true if the watch has reported nothing, but a later list lacked the object.
	Inferred bool
}

// MarkLeft records a tombstone. It ignores unknown objects.
func (s *Store[W]) MarkLeft(left Tombstone) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj := left.Object
	key := client.ObjectKeyFromObject(obj)
	if current := s.current.get(key); current != nil && current.observed.GetUID() == obj.GetUID() {
		s.current.remove(key)
	}
	if state, known := s.states[obj.GetUID()]; known {
		s.deleted[key] = append(s.deleted[key], left)
		delete(s.skipped, key)
		delete(s.dirty, key) // a re-created object starts without dirty marks
		s.current.removeState(state)
		state.observed = nil
		delete(s.newer, obj.GetUID())
	}
}

// unmarkLeft removes the tombstone of an object that is observed again, for example after the selector of the cache has changed.
func (s *Store[W]) unmarkLeft(obj client.Object) {
	key := client.ObjectKeyFromObject(obj)
	others := slices.DeleteFunc(s.deleted[key], func(other Tombstone) bool { return other.GetUID() == obj.GetUID() })
	if s.deleted[key] = others; len(others) == 0 {
		delete(s.deleted, key)
	}
}

// HasDeleted reports whether tombstones are recorded for key.
func (s *Store[W]) HasDeleted(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.deleted[key]) > 0
}

// RestoreTombstone records a tombstone again that TakeDeleted has returned.
func (s *Store[W]) RestoreTombstone(left Tombstone) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.states[left.GetUID()] != nil {
		key := client.ObjectKeyFromObject(left.Object)
		s.deleted[key] = append(s.deleted[key], left)
	}
}

// TakeDeleted returns and clears the tombstones recorded for key.
func (s *Store[W]) TakeDeleted(key types.NamespacedName) []Tombstone {
	s.mu.Lock()
	defer s.mu.Unlock()
	tombstones := s.deleted[key]
	delete(s.deleted, key)
	return tombstones
}

// GetOrCreate returns the state of an object, and creates an empty one if the object is unknown.
func (s *Store[W]) GetOrCreate(uid types.UID) *State[W] {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, known := s.states[uid]
	if !known {
		state = &State[W]{}
		s.states[uid] = state
	}
	return state
}

// Get returns the state of an object, or nil if the object is unknown.
func (s *Store[W]) Get(uid types.UID) *State[W] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states[uid]
}

// Forget removes the state of an object.
func (s *Store[W]) Forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(uid)
}

func (s *Store[W]) forget(uid types.UID) {
	delete(s.states, uid)
	delete(s.newer, uid)
	delete(s.ownVersions, uid)
	delete(s.replacedBaselines, uid)
	delete(s.onDeletion, uid)
}

// Len returns the number of objects with a state.
func (s *Store[W]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.states)
}
