package objectstate_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// child is an object of another kind with the named owners.
func child(name, version string, owners ...string) *corev1.ConfigMap {
	obj := object(name, name, version)
	for _, owner := range owners {
		obj.OwnerReferences = append(obj.OwnerReferences, metav1.OwnerReference{Name: owner})
	}
	return obj
}

func owners(obj client.Object) (keys []types.NamespacedName) {
	for _, ref := range obj.GetOwnerReferences() {
		keys = append(keys, nameOf(ref.Name))
	}
	return keys
}

// newOwnerFixture returns a fixture for the events of owned objects.
func newOwnerFixture(predicates ...predicate.Predicate) *fixture {
	s := objectstate.New[bool](objectstate.Options{TrackDirty: true})
	return &fixture{s, s.EnqueueOwners(owners, predicates...), &recorder{}}
}

// isDirty reports whether an object was marked as dirty.
func (s *fixture) isDirty(name string) bool {
	return s.TakeForeignChange(nameOf(name), &objectstate.State[bool]{}, "")
}

func TestEnqueueOwners(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(*testing.T, *fixture)
		want []string
	}{
		{"B-28 a child is created", func(t *testing.T, s *fixture) { s.created(t, child("c", "1", "a"), false) }, []string{"ns/a"}},
		{"B-28 a child without an owner", func(t *testing.T, s *fixture) { s.created(t, child("c", "1"), false) }, nil},
		{"B-28 a child with two owners", func(t *testing.T, s *fixture) { s.created(t, child("c", "1", "a", "b"), false) }, []string{"ns/a", "ns/b"}},
		{"B-28 a child of the first listing", func(t *testing.T, s *fixture) { s.created(t, child("c", "1", "a"), true) }, nil},
		{"B-28 a child changes", func(t *testing.T, s *fixture) { s.updated(t, child("c", "1", "a"), child("c", "2", "a")) }, []string{"ns/a"}},
		{"B-28 a resync", func(t *testing.T, s *fixture) { s.updated(t, child("c", "1", "a"), child("c", "1", "a")) }, nil},
		{"B-28 a child gets another owner", func(t *testing.T, s *fixture) { s.updated(t, child("c", "1", "a"), child("c", "2", "b")) }, []string{"ns/a", "ns/b"}},
		{"B-28 a child is deleted", func(t *testing.T, s *fixture) { s.deleted(t, child("c", "1", "a"), false) }, []string{"ns/a"}},
		{"B-28 B-04 a tombstone of a child", func(t *testing.T, s *fixture) { s.deleted(t, child("c", "1", "a"), true) }, []string{"ns/a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newOwnerFixture()
			test.do(t, s)
			queued := map[string]bool{}
			for _, name := range s.queued() {
				queued[name] = true
			}
			want := map[string]bool{}
			for _, name := range test.want {
				want[name] = true
			}
			equal(t, "enqueued", queued, want)
			for _, name := range []string{"a", "b"} {
				equal(t, "dirty "+name, s.isDirty(name), want["ns/"+name])
			}
			equal(t, "children have no state", s.Len(), 0)
		})
	}
}

func TestEnqueueOwners_Predicates(t *testing.T) {
	odd := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetResourceVersion() != "2" })
	s := newOwnerFixture(predicate.ResourceVersionChangedPredicate{}, odd)
	s.created(t, child("c", "2", "a"), false)
	s.updated(t, child("c", "1", "a"), child("c", "2", "a"))
	s.deleted(t, child("c", "2", "a"), false)
	equal(t, "B-28 all predicates must accept the event", len(s.queued()), 0)
	equal(t, "B-28 a rejected event", s.isDirty("a"), false)
	s.updated(t, child("c", "2", "a"), child("c", "3", "a"))
	equal(t, "B-28 an accepted event", s.isDirty("a"), true)
}
