package objectstate

import (
	"bytes"
	"maps"
	"slices"

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
	return s.newest(uid)
}

func (s *Store[W]) newest(uid types.UID) client.Object {
	if newer := s.newer[uid]; newer != nil {
		return newer
	}
	if state := s.states[uid]; state != nil {
		return state.observed
	}
	return nil
}

// Observed returns the last observed state of the object of a key. It returns nil for unknown and deleted objects. Unlike [Store.Newest], it never returns the
// response to a write, so the cache is at least as new. The result is shared and must not be changed.
func (s *Store[W]) Observed(key types.NamespacedName) client.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state := s.current.get(key); state != nil {
		return state.observed
	}
	return nil
}

// resync replaces an observed object by another copy of the same version: the object is then in memory only once.
func (s *Store[W]) resync(obj client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state := s.states[obj.GetUID()]; state != nil && state.observed != nil {
		s.setObserved(state, obj)
	}
}

// setObserved records an observed state. It also replaces the key of the map, because its string belongs to an earlier copy of the object.
func (s *Store[W]) setObserved(state *State[W], obj client.Object) {
	before := s.newest(obj.GetUID())
	if state.observed != nil && !state.isOf(client.ObjectKeyFromObject(obj)) { // two objects have the same uid
		s.current.removeState(state)
	}
	state.observed = obj
	s.states[obj.GetUID()] = state
	s.current.set(state)
	if before == nil {
		return
	}
	if !isOlder(obj, before) {
		delete(s.newer, obj.GetUID())
		s.noteReplacedBaseline(before, obj)
	} else {
		s.newer[obj.GetUID()] = before
	}
}

// List returns the newest known state of each existing object. The results are shared and must not be changed.
func (s *Store[W]) List() []client.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	objects := make([]client.Object, 0, len(s.states))
	for uid := range s.states {
		if newest := s.newest(uid); newest != nil {
			objects = append(objects, newest)
		}
	}
	return objects
}

// UpdateUnlessOlder records a state of an object, such as the response to a write, unless a newer state is known, or the observed state is the same.
// It ignores unknown and deleted objects.
func (s *Store[W]) UpdateUnlessOlder(obj client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := s.newest(obj.GetUID())
	if newest == nil || isOlder(obj, newest) {
		return
	}
	s.noteReplacedBaseline(newest, obj)
	observed := s.states[obj.GetUID()].observed
	// The removal of the last finalizer does not change the version.
	if obj.GetResourceVersion() == observed.GetResourceVersion() && slices.Equal(obj.GetFinalizers(), observed.GetFinalizers()) {
		delete(s.newer, obj.GetUID()) // the observed state is the same, and in memory anyway
		return
	}
	s.newer[obj.GetUID()] = obj
}

// UpdateIfNewer records an object that was read from the cache if it is newer than the newest known state. Unlike [Store.UpdateUnlessOlder], it keeps the
// known state if the versions are equal. It ignores unknown and deleted objects. The cache stores an object shortly
// before it notifies event handlers, so a worker may read an object that was not observed yet.
func (s *Store[W]) UpdateIfNewer(obj client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := s.newest(obj.GetUID())
	if newest == nil {
		return
	}
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), newest.GetResourceVersion())
	if err == nil && order > 0 {
		s.newer[obj.GetUID()] = obj
		s.noteReplacedBaseline(newest, obj)
	}
}

// isOlder reports whether a state of an object is older than another one. It returns false if their versions are no numbers.
func isOlder(obj, than client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), than.GetResourceVersion())
	return err == nil && order < 0
}

// noteReplacedBaseline records the baseline of the earlier state of an object if the newer state has another one, unless a replaced baseline is recorded
// already.
func (s *Store[W]) noteReplacedBaseline(before, obj client.Object) {
	if s.options.ReadBaseline == nil || s.replacedBaselines[obj.GetUID()] != nil || maps.Equal(before.GetAnnotations(), obj.GetAnnotations()) {
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
	if s.states[uid] == nil || s.options.ReadBaseline == nil {
		return
	}
	delete(s.replacedBaselines, uid)
	newest := s.newest(uid)
	if newest == nil {
		return
	}
	if current := s.options.ReadBaseline(newest); current != nil && !bytes.Equal(current, baseline) {
		s.replacedBaselines[uid] = baseline
	}
}

// newestOf returns the newest known state of an object whose delete event the watch has missed. The response to a write of this process may be
// newer than the given object, which is the last state from the watch.
func (s *Store[W]) newestOf(obj client.Object) client.Object {
	if newest := s.Newest(obj.GetUID()); newest != nil && isOlder(obj, newest) {
		return newest
	}
	return obj
}

// OnDeletion registers a callback. The store calls it when it observes that an object is being deleted, or when [Store.NotifyDeletion] is called. If the
// object is being deleted already, OnDeletion calls the callback immediately. The callback runs at most once, under the lock of the store: it must return
// quickly and must not call the store. An object has one callback at a time. The returned function unregisters the callback. For an unknown object,
// OnDeletion does nothing.
func (s *Store[W]) OnDeletion(uid types.UID, callback func()) (unregister func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.states[uid]; !known {
		return func() {}
	}
	s.onDeletion[uid] = callback
	if newest := s.newest(uid); newest != nil && newest.GetDeletionTimestamp() != nil {
		s.notifyDeletion(uid)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.onDeletion, uid)
	}
}

// AwaitsDeletion reports whether a callback of [Store.OnDeletion] is registered for an object.
func (s *Store[W]) AwaitsDeletion(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.onDeletion[uid] != nil
}

// NotifyDeletion calls the callback of [Store.OnDeletion] for an object that does not exist any more.
func (s *Store[W]) NotifyDeletion(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notifyDeletion(uid)
}

func (s *Store[W]) notifyDeletion(uid types.UID) {
	if callback := s.onDeletion[uid]; callback != nil {
		delete(s.onDeletion, uid)
		callback()
	}
}
