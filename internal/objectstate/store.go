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
	current names[W]                              // states of existing objects by key
	left    map[types.NamespacedName][]LeftObject // objects that have left the cache
	queued  map[types.NamespacedName]time.Time    // when the key was queued
	skipped map[types.NamespacedName]string       // versions whose events predicates have rejected, until the next reconcile
	dirty   map[types.NamespacedName][]dirtyMark  // changes that made the key dirty
	events  map[types.NamespacedName][]Event      // events that TakeEvents has not returned yet

	newer             map[types.UID]client.Object // newest known states, if they are not the observed ones
	ownVersions       map[types.UID][]OwnVersion  // this process's writes, until the watch delivers them
	replacedBaselines map[types.UID][]byte        // baselines before another client replaced them
	onDeletion        map[types.UID]func()        // called once when the object is being deleted or is known to be deleted

	queue        queue // the controller's; nil until it has started
	longestQueue int   // largest size of the queued map since it was made
	options      Options
}

// Options select what a [Store] records in addition to the states.
type Options struct {
	// RecordEvents records every observed event for [Store.TakeEvents].
	RecordEvents bool
	// TrackDirty records the resource versions that mark an object as dirty, for [Store.TakeForeignChanges].
	TrackDirty bool
	// MarkDeletions marks an object as dirty even when it no longer exists. The caller must then call [Store.TakeForeignChanges] for its
	// key.
	MarkDeletions bool
	// ExistedAtStart reports whether an object existed when the process started although it was missing from the informer's first listing.
	// obj is the object's first observed state. Leave it nil if the first listing is complete.
	ExistedAtStart func(obj client.Object) bool
	// Enqueues reports whether an object must be reconciled even if the predicates reject its event. It is optional.
	Enqueues func(client.Object) bool
	// AtRest reports whether an object of the first list need not be reconciled. It is optional.
	AtRest func(client.Object) bool
	// ReadBaseline returns an object's stored baseline, for [Store.BaselineBeforeReplacement]. If it is nil, the store doesn't compare
	// baselines.
	ReadBaseline func(client.Object) []byte
	// SameBaseline reports whether two states of an object have the same baseline. It is optional, and cheaper than ReadBaseline.
	SameBaseline func(one, other client.Object) bool
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

// Observe records an existing object, and marks its key as dirty if [Options.TrackDirty] is set. listedAtStart is true if the object was in
// the informer's first listing.
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

// LeftObject is the last known state of an object that has left the cache. It has been deleted, or the cache doesn't select it any more.
type LeftObject struct {
	client.Object
	// Inferred is true if the watch has reported nothing, but the object was missing from a later list.
	Inferred bool
}

// MarkLeft records that an object has left the cache. Unknown objects are ignored.
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

// unmarkLeft forgets that an object has left the cache, because it has reappeared, for example after the cache's selector has changed.
func (s *Store[W]) unmarkLeft(obj client.Object) {
	key := client.ObjectKeyFromObject(obj)
	others := slices.DeleteFunc(s.left[key], func(other LeftObject) bool { return other.GetUID() == obj.GetUID() })
	if s.left[key] = others; len(others) == 0 {
		delete(s.left, key)
	}
}

// HasLeft reports whether objects with this key have left the cache.
func (s *Store[W]) HasLeft(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.left[key]) > 0
}

// RestoreLeft puts back an object that TakeLeft has returned.
func (s *Store[W]) RestoreLeft(left LeftObject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.states[left.GetUID()] != nil {
		key := client.ObjectKeyFromObject(left.Object)
		s.left[key] = append(s.left[key], left)
	}
}

// TakeLeft returns and clears the objects with this key that have left the cache.
func (s *Store[W]) TakeLeft(key types.NamespacedName) []LeftObject {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.left[key]
	delete(s.left, key)
	return left
}

// GetOrCreate returns an object's state, which it creates if the object is unknown.
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

// Get returns an object's state, or nil if the object is unknown.
func (s *Store[W]) Get(uid types.UID) *State[W] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states[uid]
}

// Forget removes an object's state.
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
