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

// child is an object of another kind, owned by those that are named.
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

// family is a stage that is fed by a watch of children.
func family(predicates ...predicate.Predicate) *stage {
	i := objectstate.New(objectstate.Wants{Stirs: true})
	return &stage{i, i.Relatives(owners, predicates...), &recorder{}}
}

// stirs reports whether something has happened around the objects of a name.
func (s *stage) stirs(name string) bool { return s.Stirred(nameOf(name), &objectstate.Memory{}, "") }

func TestRelatives(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(*testing.T, *stage)
		want []string
	}{
		{"B-28 a child comes", func(t *testing.T, s *stage) { s.created(t, child("c", "1", "a"), false) }, []string{"ns/a"}},
		{"B-28 a child of nobody", func(t *testing.T, s *stage) { s.created(t, child("c", "1"), false) }, nil},
		{"B-28 a child of two", func(t *testing.T, s *stage) { s.created(t, child("c", "1", "a", "b"), false) }, []string{"ns/a", "ns/b"}},
		{"B-28 a child that is listed: so is its owner", func(t *testing.T, s *stage) { s.created(t, child("c", "1", "a"), true) }, nil},
		{"B-28 a child changes", func(t *testing.T, s *stage) { s.updated(t, child("c", "1", "a"), child("c", "2", "a")) }, []string{"ns/a"}},
		{"B-28 a resync is no change", func(t *testing.T, s *stage) { s.updated(t, child("c", "1", "a"), child("c", "1", "a")) }, nil},
		{"B-28 a child is adopted by another", func(t *testing.T, s *stage) { s.updated(t, child("c", "1", "a"), child("c", "2", "b")) }, []string{"ns/a", "ns/b"}},
		{"B-28 a child goes", func(t *testing.T, s *stage) { s.deleted(t, child("c", "1", "a"), false) }, []string{"ns/a"}},
		{"B-28 B-04 a child has gone unseen", func(t *testing.T, s *stage) { s.deleted(t, child("c", "1", "a"), true) }, []string{"ns/a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := family()
			test.do(t, s)
			queued := map[string]bool{}
			for _, name := range s.queued() {
				queued[name] = true
			}
			want := map[string]bool{}
			for _, name := range test.want {
				want[name] = true
			}
			equal(t, "woken", queued, want)
			for _, name := range []string{"a", "b"} {
				equal(t, "stirred "+name, s.stirs(name), want["ns/"+name])
			}
			equal(t, "children are not remembered", s.Len(), 0)
		})
	}
}

func TestPredicatesOfRelatives(t *testing.T) {
	odd := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetResourceVersion() != "2" })
	s := family(predicate.ResourceVersionChangedPredicate{}, odd)
	s.created(t, child("c", "2", "a"), false)
	s.updated(t, child("c", "1", "a"), child("c", "2", "a"))
	s.deleted(t, child("c", "2", "a"), false)
	equal(t, "B-28 all predicates have to agree", len(s.queued()), 0)
	equal(t, "B-28 nothing has happened", s.stirs("a"), false)
	s.updated(t, child("c", "2", "a"), child("c", "3", "a"))
	equal(t, "B-28 they agree", s.stirs("a"), true)
}
