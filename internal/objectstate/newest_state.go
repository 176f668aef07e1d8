package objectstate

import (
	"bytes"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// IsOlderVersion reports whether a resource version is older than the other. If one of them is not a number, it reports whether they
// differ.
func IsOlderVersion(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	if err != nil {
		return version != than
	}
	return order < 0
}

// Newest returns an object's newest known state, which was observed, read from the cache, or returned by a write of this process. It
// returns nil for unknown and deleted objects. The result is shared and must not be changed.
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

// Observed returns the last observed state of the object with a key, or nil if the object is unknown or deleted. Unlike [Store.Newest], it
// never returns the response to a write, so the cache is at least as new. The result is shared and must not be changed.
func (s *Store[W]) Observed(key types.NamespacedName) client.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state := s.current.get(key); state != nil {
		return state.observed
	}
	return nil
}

// resync replaces an observed object with a different copy of the same version, so that memory holds it only once.
func (s *Store[W]) resync(obj client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state := s.states[obj.GetUID()]; state != nil && state.observed != nil {
		s.setObserved(state, obj)
	}
}

// setObserved records an observed state, under the key of the new object.
func (s *Store[W]) setObserved(state *State[W], obj client.Object) {
	before := s.newest(obj.GetUID())
	if state.observed != nil && !state.isOf(client.ObjectKeyFromObject(obj)) { // two objects share a uid
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

// List returns every existing object's newest known state. The results are shared and must not be changed.
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

// UpdateUnlessOlder records a state of an object, such as the response to a write, unless a newer one is known or it is the one already
// observed. Unknown and deleted objects are ignored.
func (s *Store[W]) UpdateUnlessOlder(obj client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := s.newest(obj.GetUID())
	if newest == nil || isOlder(obj, newest) {
		return
	}
	s.noteReplacedBaseline(newest, obj)
	observed := s.states[obj.GetUID()].observed
	// Removing the last finalizer doesn't change the version.
	if obj.GetResourceVersion() == observed.GetResourceVersion() && slices.Equal(obj.GetFinalizers(), observed.GetFinalizers()) {
		delete(s.newer, obj.GetUID()) // the observed state is the same, and is in memory anyway
		return
	}
	s.newer[obj.GetUID()] = obj
}

// UpdateIfNewer records an object read from the cache if it is newer than the newest known state. Unlike [Store.UpdateUnlessOlder], it
// keeps the known state if the versions are equal. Unknown and deleted objects are ignored. It is needed because the cache stores an object
// shortly before it notifies event handlers, so a worker may read one that hasn't been observed yet.
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

// isOlder reports whether one state of an object is older than the other. It returns false if their versions are not numbers.
func isOlder(obj, than client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), than.GetResourceVersion())
	return err == nil && order < 0
}

// noteReplacedBaseline records an object's earlier baseline if the newer state has a different one, unless a replaced baseline is already
// recorded.
func (s *Store[W]) noteReplacedBaseline(before, obj client.Object) {
	if s.options.ReadBaseline == nil || s.replacedBaselines[obj.GetUID()] != nil || maps.Equal(before.GetAnnotations(), obj.GetAnnotations()) {
		return
	}
	if s.options.SameBaseline != nil && s.options.SameBaseline(before, obj) {
		return
	}
	oldBaseline, newBaseline := s.options.ReadBaseline(before), s.options.ReadBaseline(obj)
	if oldBaseline != nil && newBaseline != nil && !bytes.Equal(oldBaseline, newBaseline) {
		s.replacedBaselines[obj.GetUID()] = oldBaseline
	}
}

// BaselineBeforeReplacement returns the baseline that an object had before another client replaced it. It returns nil if the last stored
// baseline isn't known to have been replaced.
func (s *Store[W]) BaselineBeforeReplacement(uid types.UID) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replacedBaselines[uid]
}

// NoteStoredBaseline records the baseline that this process has just stored on an object. If the newest known state already has a different
// one, [Store.BaselineBeforeReplacement] will return the given baseline.
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

// newestOf returns the newest known state of an object whose delete event the watch has missed. A response to a write of this process may
// be newer than obj, which is the last state from the watch.
func (s *Store[W]) newestOf(obj client.Object) client.Object {
	if newest := s.Newest(obj.GetUID()); newest != nil && isOlder(obj, newest) {
		return newest
	}
	return obj
}

// OnDeletion registers a callback that the store calls when it sees that an object is being deleted, or when [Store.NotifyDeletion] is
// called. If the object is already being deleted, the callback is called immediately. It is called at most once, with the store locked, so
// it must return quickly and must not use the store. An object has one callback at a time. Call unregister to remove it. For an unknown
// object, OnDeletion does nothing.
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

// NotifyDeletion calls the [Store.OnDeletion] callback of an object that no longer exists.
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
