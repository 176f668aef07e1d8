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
	current names[W]                              // the states of existing objects by key
	left    map[types.NamespacedName][]LeftObject // of objects that have left the cache
	queued  map[types.NamespacedName]time.Time    // when the key was queued
	skipped map[types.NamespacedName]string       // the resource versions of events that predicates have rejected, until the next reconcile
	dirty   map[types.NamespacedName][]dirtyMark  // the changes that made the key dirty
	events  map[types.NamespacedName][]Event      // events that TakeEvents has not returned yet

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
		left:    map[types.NamespacedName][]LeftObject{},
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

// LeftObject is the last known state of an object that has left the cache. The object is deleted, or the cache does not select it any more.
type LeftObject struct {
	client.Object
	// Inferred is true if the watch has reported nothing, but a later list lacked the object.
	Inferred bool
}

// MarkLeft records an object that has left the cache. It ignores unknown objects.
func (s *Store[W]) MarkLeft(left LeftObject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj := left.Object
	key := client.ObjectKeyFromObject(obj)
	if current := s.current.get(key); current != nil && current.observed.GetUID() == obj.GetUID() {
		s.current.remove(key)
	}
	if state, known := s.states[obj.GetUID()]; known {
		s.left[key] = append(s.left[key], left)
		delete(s.skipped, key)
		delete(s.dirty, key) // a re-created object starts without dirty marks
		s.current.removeState(state)
		state.observed = nil
		delete(s.newer, obj.GetUID())
	}
}

// unmarkLeft forgets that an object has left the cache. It is observed again, for example after the selector of the cache has changed.
func (s *Store[W]) unmarkLeft(obj client.Object) {
	key := client.ObjectKeyFromObject(obj)
	others := slices.DeleteFunc(s.left[key], func(other LeftObject) bool { return other.GetUID() == obj.GetUID() })
	if s.left[key] = others; len(others) == 0 {
		delete(s.left, key)
	}
}

// HasLeft reports whether objects of a key have left the cache.
func (s *Store[W]) HasLeft(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.left[key]) > 0
}

// RestoreLeft records an object again that TakeLeft has returned.
func (s *Store[W]) RestoreLeft(left LeftObject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.states[left.GetUID()] != nil {
		key := client.ObjectKeyFromObject(left.Object)
		s.left[key] = append(s.left[key], left)
	}
}

// TakeLeft returns and clears the objects of a key that have left the cache.
func (s *Store[W]) TakeLeft(key types.NamespacedName) []LeftObject {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.left[key]
	delete(s.left, key)
	return left
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
