package shards

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Releases keeps track of released objects until the watch confirms that they have left the shard. Until then, the cache still holds states
// that must not be handled. The zero value is ready to use. Releases is safe for concurrent use.
type Releases struct {
	mu    sync.Mutex
	byKey map[types.NamespacedName]*released
}

type released struct {
	uid  types.UID
	done bool          // the labels have been removed; false while the request is running
	left bool          // meanwhile the watch has reported that the object left the shard
	back client.Object // the object, if it has meanwhile returned to the shard
}

// IsDone reports whether the engine has released the object with this key.
func (s *Releases) IsDone(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.byKey[key]
	return one != nil && one.done
}

// Begin must be called before an object's labels are removed, and End afterwards.
func (s *Releases) Begin(key types.NamespacedName, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey == nil {
		s.byKey = map[types.NamespacedName]*released{}
	}
	s.byKey[key] = &released{uid: uid}
}

// End records whether the labels were removed. returned is the object if the request put it back into the shard, otherwise nil. End reports
// whether the object has left the shard and whether it has since come back. If it has, its events are held back until the caller calls
// [Releases.Readmit].
func (s *Releases) End(key types.NamespacedName, removed bool, returned client.Object) (left, back bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.byKey[key]
	if one.back == nil && !one.left {
		one.back = returned
	}
	left, back = removed || one.left || one.back != nil, one.back != nil
	switch one.done = left && !back; {
	case !left, one.left && !back:
		delete(s.byKey, key)
	}
	return left, back
}

// Takes records an event for a release, and reports whether to keep it from the next event handler. returns is true for the first event of
// an object that has come back to the shard.
func (s *Releases) Takes(shard *Shard, obj client.Object, deleted bool) (taken, returns bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(obj)
	one := s.byKey[key]
	if one == nil {
		return false, false
	}
	isSame := one.uid == obj.GetUID() // otherwise, the object has been re-created
	switch {
	case one.done && isSame && !deleted && shard.Leaves(obj):
		return true, false
	case one.done:
		delete(s.byKey, key)
		return isSame && deleted, isSame && !deleted
	case deleted:
		one.left, one.back = true, nil
		return true, false
	case one.left || one.back != nil || !isSame || !shard.Leaves(obj):
		one.back = obj
		return true, false
	}
	return false, false // the request may still fail, and is then retried for the newest state
}

// Readmit forgets an object's release, and calls handle with the object if it has come back to the shard. Later events wait until handle
// returns. handle must not call methods of Releases.
func (s *Releases) Readmit(key types.NamespacedName, handle func(client.Object)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.byKey[key]
	delete(s.byKey, key)
	if one != nil && one.back != nil { // otherwise, it has left the shard again
		handle(one.back)
	}
}
