package objectstate_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// KW-05: daemons and timers read the newest state of the object.
func TestNewest(t *testing.T) {
	version := func(s *fixture) string {
		if newest := s.Newest("1"); newest != nil {
			return newest.GetResourceVersion()
		}
		return "none"
	}
	s := newFixture()
	equal(t, "unknown object", version(s), "none")
	s.Store.UpdateUnlessOlder(object("a", "1", "3"))
	equal(t, "a response for an unknown object", version(s), "none")

	s.created(t, object("a", "1", "3"), false)
	equal(t, "first event", version(s), "3")
	s.Store.UpdateUnlessOlder(object("a", "1", "9"))
	s.updated(t, object("a", "1", "3"), object("a", "1", "5"))
	equal(t, "the response is newer than the watch", version(s), "9")
	s.updated(t, object("a", "1", "5"), object("a", "1", "10"))
	equal(t, "versions are compared as numbers", version(s), "10")

	repeated := object("a", "1", "10")
	s.updated(t, object("a", "1", "10"), repeated)
	if s.Newest("1") != client.Object(repeated) {
		t.Error("the store and the cache have different copies")
	}
	s.updated(t, object("a", "1", "10"), object("a", "1", "opaque"))
	equal(t, "versions that cannot be compared", version(s), "opaque")

	s.updated(t, object("a", "1", "opaque"), object("a", "1", "11"))
	same := s.Newest("1")
	s.UpdateIfNewer(object("a", "1", "10"))
	s.UpdateIfNewer(object("a", "1", "11"))
	if s.Newest("1") != same {
		t.Error("a cache read that is not newer replaces the state")
	}
	s.UpdateIfNewer(object("a", "1", "12"))
	equal(t, "a newer cache read", version(s), "12")
	last := object("a", "1", "12")
	last.Finalizers = []string{"f"}
	s.updated(t, object("a", "1", "11"), last)
	unchanged := last.DeepCopy()
	s.Store.UpdateUnlessOlder(unchanged)
	if s.Newest("1") != client.Object(last) {
		t.Error("after a response with the observed state, the object is in memory twice")
	}
	removed := object("a", "1", "12")
	s.Store.UpdateUnlessOlder(removed)
	if s.Newest("1") != client.Object(removed) {
		t.Error("the removal of the last finalizer, which does not change the version, is not known")
	}
	s.UpdateIfNewer(object("b", "2", "12"))

	s.deleted(t, object("a", "1", "12"), false)
	equal(t, "after the deletion", version(s), "none")
	s.Store.UpdateUnlessOlder(object("a", "1", "13"))
	s.UpdateIfNewer(object("a", "1", "13"))
	equal(t, "updates after the deletion", version(s), "none")
}

// An API server that does not check uids may have two objects with one uid. They share a state, but the store must not fail.
func TestStore_TwoObjectsWithOneUID(t *testing.T) {
	s := newFixture()
	keys := func(types.NamespacedName) bool { return true }
	s.created(t, object("a", "1", "1"), false)
	s.created(t, object("b", "1", "2"), false)
	equal(t, "keys", s.Keys(keys), []types.NamespacedName{nameOf("b")})
	s.deleted(t, object("b", "1", "3"), false)
	equal(t, "object after the deletion of the other one", s.Observed(nameOf("a")), client.Object(nil))
	s.updated(t, object("a", "1", "1"), object("a", "1", "4"))
	equal(t, "version after an update", s.Observed(nameOf("a")).GetResourceVersion(), "4")
	s.created(t, object("b", "1", "5"), false)
	s.deleted(t, object("a", "1", "6"), false)
	equal(t, "object b", s.Observed(nameOf("b")), client.Object(nil))
	s.ForgetKey(nameOf("b"))
	s.ForgetKey(nameOf("a"))
	equal(t, "number of keys", len(s.Keys(keys)), 0)
}

// SE-53: daemons and timers are stopped when their object is deleted.
func TestOnDeletion(t *testing.T) {
	deleting := func(version string) *corev1.ConfigMap {
		obj := object("a", "1", version)
		obj.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		return obj
	}
	s, calls := newFixture(), 0
	callback := func() { calls++ }
	s.OnDeletion("1", callback)
	s.created(t, object("a", "1", "1"), false)
	s.updated(t, object("a", "1", "1"), deleting("2"))
	equal(t, "unknown object", calls, 0)

	unregister := s.OnDeletion("1", callback)
	equal(t, "object that is already being deleted", calls, 1)
	s.updated(t, deleting("2"), deleting("3"))
	equal(t, "another change", calls, 1)
	unregister()

	s = newFixture()
	s.created(t, object("a", "1", "1"), false)
	s.OnDeletion("1", callback)
	s.updated(t, object("a", "1", "1"), object("a", "1", "2"))
	equal(t, "change without deletion", calls, 1)
	s.updated(t, object("a", "1", "2"), deleting("3"))
	equal(t, "start of the deletion", calls, 2)

	s = newFixture()
	s.created(t, object("a", "1", "1"), false)
	s.OnDeletion("1", callback)
	s.deleted(t, object("a", "1", "2"), false)
	equal(t, "object that has left the cache", calls, 2)
	equal(t, "a callback waits", s.AwaitsDeletion("1"), true)
	s.NotifyDeletion("1")
	equal(t, "confirmed deletion", calls, 3)
	equal(t, "no callback waits", s.AwaitsDeletion("1"), false)
	s.NotifyDeletion("1")
	equal(t, "confirmed twice", calls, 3)

	s = newFixture()
	s.created(t, object("a", "1", "1"), false)
	s.OnDeletion("1", callback)()
	s.deleted(t, object("a", "1", "2"), false)
	s.NotifyDeletion("1")
	equal(t, "after unregister", calls, 3)
}
