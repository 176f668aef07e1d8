package inventory_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kopf-runtime/kopf-runtime/internal/inventory"
)

// seen are the identities, versions and events of what was observed under a name.
func seen(i *inventory.Inventory, name string) []string {
	var all []string
	for _, sight := range i.Sights(nameOf(name)) {
		all = append(all, string(sight.Object.GetUID())+"@"+sight.Object.GetResourceVersion()+":"+sight.Event)
	}
	return all
}

func watching(predicates ...predicate.Predicate) *stage {
	i := inventory.New(inventory.Wants{Sights: true})
	return &stage{i, i.EventHandler(nil, predicates...), &recorder{}}
}

func TestSightsTellHowTheyCame(t *testing.T) {
	s := watching()
	s.created(t, object("a", "1", "1"), true)
	s.created(t, object("b", "2", "1"), false)
	s.updated(t, object("b", "2", "1"), object("b", "2", "2"))
	s.updated(t, object("b", "2", "2"), object("b", "2", "2"))
	s.deleted(t, object("b", "2", "3"), false)
	equal(t, "KW-07 listed: no type", seen(s.Inventory, "a"), []string{"1@1:"})
	equal(t, "KW-07 watched: the server's types, in order; a resync is no sight", seen(s.Inventory, "b"),
		[]string{"2@1:ADDED", "2@2:MODIFIED", "2@3:DELETED"})
	equal(t, "once", len(seen(s.Inventory, "b")), 0)
}

func TestSightsOfAMissedDeletion(t *testing.T) {
	s := watching()
	s.created(t, object("a", "1", "1"), true)
	s.updated(t, object("a", "1", "1"), object("a", "2", "9"))
	equal(t, "KW-07 B-04 B-06 the one goes, another comes", seen(s.Inventory, "a"),
		[]string{"1@1:", "1@1:DELETED", "2@9:ADDED"})
}

func TestSightsAreTakenOnlyIfWanted(t *testing.T) {
	s := newStage()
	s.created(t, object("a", "1", "1"), false)
	equal(t, "sights", len(seen(s.Inventory, "a")), 0)
}
