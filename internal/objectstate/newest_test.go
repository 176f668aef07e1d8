package objectstate_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// KW-05: daemons and timers see the object as it changes.
func TestTheNewestStateIsKnown(t *testing.T) {
	version := func(s *stage) string {
		if newest := s.Newest("1"); newest != nil {
			return newest.GetResourceVersion()
		}
		return "none"
	}
	s := newStage()
	equal(t, "of an unknown object", version(s), "none")
	s.Learn(object("a", "1", "3"))
	equal(t, "a write says nothing about one that was never seen", version(s), "none")

	s.created(t, object("a", "1", "3"), false)
	equal(t, "the first one", version(s), "3")
	s.Learn(object("a", "1", "9"))
	s.updated(t, object("a", "1", "3"), object("a", "1", "5"))
	equal(t, "a write is ahead of the watch", version(s), "9")
	s.updated(t, object("a", "1", "5"), object("a", "1", "10"))
	equal(t, "numbers, not texts", version(s), "10")

	repeated := object("a", "1", "10")
	s.updated(t, object("a", "1", "10"), repeated)
	if s.Newest("1") != client.Object(repeated) {
		t.Error("another copy than that of the cache is kept")
	}
	s.updated(t, object("a", "1", "10"), object("a", "1", "opaque"))
	equal(t, "versions that cannot be compared come in order", version(s), "opaque")

	s.updated(t, object("a", "1", "opaque"), object("a", "1", "11"))
	same := s.Newest("1")
	s.CatchUp(object("a", "1", "10"))
	s.CatchUp(object("a", "1", "11"))
	if s.Newest("1") != same {
		t.Error("what was read is not newer, and was learnt")
	}
	s.CatchUp(object("a", "1", "12"))
	equal(t, "what was read is newer", version(s), "12")
	s.CatchUp(object("b", "2", "12"))

	s.deleted(t, object("a", "1", "12"), false)
	equal(t, "of an object that is gone", version(s), "none")
	s.Learn(object("a", "1", "13"))
	s.CatchUp(object("a", "1", "13"))
	equal(t, "nothing brings it back", version(s), "none")
}

// SE-53: whoever works for an object learns of its deletion.
func TestRemovalsAreTold(t *testing.T) {
	going := func(version string) *corev1.ConfigMap {
		obj := object("a", "1", version)
		obj.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		return obj
	}
	s, told := newStage(), 0
	tell := func() { told++ }
	s.OnRemoval("1", tell)
	s.created(t, object("a", "1", "1"), false)
	s.updated(t, object("a", "1", "1"), going("2"))
	equal(t, "there was nothing to be told about before it was seen", told, 0)

	end := s.OnRemoval("1", tell)
	equal(t, "at once, if it is being deleted already", told, 1)
	s.updated(t, going("2"), going("3"))
	equal(t, "only once", told, 1)
	end()

	s = newStage()
	s.created(t, object("a", "1", "1"), false)
	s.OnRemoval("1", tell)
	s.updated(t, object("a", "1", "1"), object("a", "1", "2"))
	equal(t, "not by other changes", told, 1)
	s.updated(t, object("a", "1", "2"), going("3"))
	equal(t, "when it is being deleted", told, 2)

	s = newStage()
	s.created(t, object("a", "1", "1"), false)
	s.OnRemoval("1", tell)
	s.deleted(t, object("a", "1", "2"), false)
	equal(t, "when it is gone", told, 3)

	s = newStage()
	s.created(t, object("a", "1", "1"), false)
	s.OnRemoval("1", tell)()
	s.deleted(t, object("a", "1", "2"), false)
	equal(t, "not after the end", told, 3)
}
