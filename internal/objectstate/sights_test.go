package objectstate_test

import (
	"fmt"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// watching is a stage whose inventory keeps what is asked for.
func watching(wants objectstate.Wants, predicates ...predicate.Predicate) *stage {
	i := objectstate.New(wants)
	return &stage{i, i.EventHandler(nil, predicates...), &recorder{}}
}

// seen are the sights of a name: how they came, of which identity and version.
func seen(i *objectstate.Inventory, name string) []string {
	var out []string
	for _, sight := range i.Sights(nameOf(name)) {
		out = append(out, fmt.Sprintf("%s %s@%s", sight.Event, sight.Object.GetUID(), sight.Object.GetResourceVersion()))
	}
	return out
}

func TestSights(t *testing.T) {
	s := watching(objectstate.Wants{Sights: true})
	s.created(t, object("a", "1", "1"), true)
	s.created(t, object("b", "2", "2"), false)
	equal(t, "KW-07 EVT-01 a listed object has no event type", seen(s.Inventory, "a"), []string{" 1@1"})
	equal(t, "KW-07 a new one has", seen(s.Inventory, "b"), []string{"ADDED 2@2"})
	equal(t, "EVT-11 each sight is told once", len(seen(s.Inventory, "a")), 0)

	s.updated(t, object("a", "1", "1"), object("a", "1", "3"))
	s.updated(t, object("a", "1", "3"), object("a", "1", "4"))
	s.updated(t, object("a", "1", "4"), object("a", "1", "4"))
	s.deleted(t, object("a", "1", "5"), false)
	equal(t, "EVT-11 EVT-20 every state, in order, the last one too; resyncs tell nothing", seen(s.Inventory, "a"),
		[]string{"MODIFIED 1@3", "MODIFIED 1@4", "DELETED 1@5"})
}

func TestSightsOfReplacedAndLostObjects(t *testing.T) {
	s := watching(objectstate.Wants{Sights: true})
	s.created(t, object("a", "1", "1"), true)
	seen(s.Inventory, "a")
	s.updated(t, object("a", "1", "1"), object("a", "2", "9"))
	equal(t, "B-04 B-06 SE-08 a replacement is a deletion and a creation", seen(s.Inventory, "a"),
		[]string{"DELETED 1@1", "ADDED 2@9"})
	s.deleted(t, object("a", "2", "9"), true)
	equal(t, "B-04 SE-08 a tombstone is a deletion", seen(s.Inventory, "a"), []string{"DELETED 2@9"})
}

// Spies are told of all states; predicates are for those who act.
func TestSightsWakeWhateverThePredicatesSay(t *testing.T) {
	never := predicate.NewPredicateFuncs(func(client.Object) bool { return false })
	s := watching(objectstate.Wants{Sights: true}, never)
	s.created(t, object("a", "1", "1"), true)
	s.updated(t, object("a", "1", "1"), object("a", "1", "2"))
	equal(t, "EVT-20 it wakes", s.queued(), []string{"ns/a", "ns/a"})
	s.updated(t, object("a", "1", "2"), object("a", "1", "2"))
	equal(t, "EVT-20 but not for a resync", len(s.queued()), 0)
	equal(t, "EVT-20 all is told", seen(s.Inventory, "a"), []string{" 1@1", "MODIFIED 1@2"})
}

func TestNobodyWantsSights(t *testing.T) {
	s := watching(objectstate.Wants{})
	s.created(t, object("a", "1", "1"), true)
	s.deleted(t, object("a", "1", "2"), false)
	equal(t, "nothing is kept", len(seen(s.Inventory, "a")), 0)
}

// EVT-11: none is lost and none told twice, whoever asks meanwhile.
func TestSightsAreSafeForConcurrentUse(t *testing.T) {
	const states = 500
	s := watching(objectstate.Wants{Sights: true})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := range states {
			s.updated(t, object("a", "1", fmt.Sprint(n)), object("a", "1", fmt.Sprint(n+1)))
		}
	})
	var told []string
	wg.Go(func() {
		for len(told) < states {
			told = append(told, seen(s.Inventory, "a")...)
		}
	})
	wg.Wait()
	for n, sight := range told {
		if want := fmt.Sprintf("MODIFIED 1@%d", n+1); sight != want {
			t.Fatalf("EVT-11: sight %d is %q, want %q", n, sight, want)
		}
	}
}
