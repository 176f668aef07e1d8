package objectstate

import (
	"bytes"
	"maps"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// IsOlderVersion reports whether a resource version is older than another one. If one of them is not a number, IsOlderVersion reports whether they differ.
func IsOlderVersion(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	if err != nil {
		return version != than
	}
	return order < 0
}

// Newest returns the newest known state of an object. The known states are observed states, states read from the cache, and responses to writes of this process.
// It returns nil for unknown and deleted objects. The result is shared and must not be changed.
func (s *Store[W]) Newest(uid types.UID) client.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, known := s.states[uid]; known {
		return state.newest
	}
	return nil
}

// Observed returns the last observed state of the object of a key. It returns nil for unknown and deleted objects. Unlike [Store.Newest], it never returns the
// response to a write, so the cache is at least as new. The result is shared and must not be changed.
func (s *Store[W]) Observed(key types.NamespacedName) client.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current[key]
}

// resync replaces an observed object by another copy of the same version: the object is then in memory only once.
func (s *Store[W]) resync(obj client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, known := s.states[obj.GetUID()]
	if !known || state.newest == nil {
		return
	}
	s.setObserved(state, obj)
}

// setObserved records an observed state. It also replaces the keys of the maps, because their strings belong to an earlier copy of the object.
func (s *Store[W]) setObserved(state *State[W], obj client.Object) {
	s.update(state, obj)
	s.states[obj.GetUID()] = state
	s.current[client.ObjectKeyFromObject(obj)] = obj
}

// List returns the newest known state of each existing object. The results are shared and must not be changed.
func (s *Store[W]) List() []client.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	objects := make([]client.Object, 0, len(s.states))
	for _, state := range s.states {
		if state.newest != nil {
			objects = append(objects, state.newest)
		}
	}
	return objects
}

// UpdateUnlessOlder records a state of an object, such as the response to a write, unless a newer state is known. If the known state has the same version,
// UpdateUnlessOlder replaces it. It ignores unknown and deleted objects.
func (s *Store[W]) UpdateUnlessOlder(obj client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, known := s.states[obj.GetUID()]; known && state.newest != nil {
		s.update(state, obj)
	}
}

// UpdateIfNewer records an object that was read from the cache if it is newer than the newest known state. Unlike [Store.UpdateUnlessOlder], it keeps the
// known state if the versions are equal. It ignores unknown and deleted objects. The cache stores an object shortly
// before it notifies event handlers, so a worker may read an object that was not observed yet.
func (s *Store[W]) UpdateIfNewer(obj client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, known := s.states[obj.GetUID()]
	if !known || state.newest == nil {
		return
	}
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), state.newest.GetResourceVersion())
	if err == nil && order > 0 {
		s.update(state, obj)
	}
}

// update records a state unless a newer one is known. If the new state has another baseline, it records the baseline of the earlier state, unless
// a replaced baseline is recorded already.
func (s *Store[W]) update(state *State[W], obj client.Object) {
	before := state.newest
	state.update(obj)
	if s.options.ReadBaseline == nil || before == nil || state.newest != obj || s.replacedBaselines[obj.GetUID()] != nil ||
		maps.Equal(before.GetAnnotations(), obj.GetAnnotations()) {
		return
	}
	oldBaseline, newBaseline := s.options.ReadBaseline(before), s.options.ReadBaseline(obj)
	if oldBaseline != nil && newBaseline != nil && !bytes.Equal(oldBaseline, newBaseline) {
		s.replacedBaselines[obj.GetUID()] = oldBaseline
	}
}

// BaselineBeforeReplacement returns the baseline of an object before another client replaced it. It returns nil if no replacement of the last stored
// baseline is known.
func (s *Store[W]) BaselineBeforeReplacement(uid types.UID) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replacedBaselines[uid]
}

// NoteStoredBaseline records the baseline that this process has just stored on an object. If the newest known state already has another
// baseline, [Store.BaselineBeforeReplacement] returns the given baseline.
func (s *Store[W]) NoteStoredBaseline(uid types.UID, baseline []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, known := s.states[uid]
	if !known || s.options.ReadBaseline == nil {
		return
	}
	delete(s.replacedBaselines, uid)
	if state.newest == nil {
		return
	}
	if current := s.options.ReadBaseline(state.newest); current != nil && !bytes.Equal(current, baseline) {
		s.replacedBaselines[uid] = baseline
	}
}

// update replaces the newest state with obj unless obj is older. It also replaces a state of the same version: obj is usually the cached copy,
// so the object is in memory only once.
func (s *State[W]) update(obj client.Object) {
	if s.newest != nil {
		order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), s.newest.GetResourceVersion())
		if err == nil && order < 0 {
			return
		}
	}
	s.newest = obj
}

// newestOf returns the newest known state of an object whose delete event the watch has missed. The response to a write of this process may be
// newer than the given object, which is the last state from the watch.
func (s *Store[W]) newestOf(obj client.Object) client.Object {
	newest := s.Newest(obj.GetUID())
	if newest == nil {
		return obj
	}
	order, err := resourceversion.CompareResourceVersion(newest.GetResourceVersion(), obj.GetResourceVersion())
	if err != nil || order <= 0 {
		return obj
	}
	return newest
}

// OnDeletion registers a callback. The store calls it when it observes that an object is being deleted or no longer exists. If the store already
// knows this, OnDeletion calls the callback immediately. The callback runs at most once, under the lock of the store: it must return quickly and must
// not call the store. An object has one callback at a time. The returned function unregisters the callback. For an unknown object, OnDeletion
// does nothing.
func (s *Store[W]) OnDeletion(uid types.UID, callback func()) (unregister func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, known := s.states[uid]
	if !known {
		return func() {}
	}
	s.onDeletion[uid] = callback
	if state.deleted || state.newest != nil && state.newest.GetDeletionTimestamp() != nil {
		s.notifyDeletion(uid)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.onDeletion, uid)
	}
}

func (s *Store[W]) notifyDeletion(uid types.UID) {
	if callback := s.onDeletion[uid]; callback != nil {
		delete(s.onDeletion, uid)
		callback()
	}
}
