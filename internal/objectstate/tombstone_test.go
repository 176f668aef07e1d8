package objectstate_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"
)

// After a missed deletion, the response to our last write is the last known state.
func TestMarkLeft_MissedDeletionKeepsOwnWrite(t *testing.T) {
	for name, test := range map[string]struct {
		unknown bool
		want    string
	}{"missed": {true, "1@9"}, "seen": {false, "1@5"}} {
		t.Run(name, func(t *testing.T) {
			s := newFixture()
			s.created(t, object("a", "1", "3"), false)
			s.Store.UpdateUnlessOlder(object("a", "1", "9"))
			s.Store.EventHandler(nil).Delete(t.Context(), event.DeleteEvent{Object: object("a", "1", "5"), DeleteStateUnknown: test.unknown}, s.queue)
			equal(t, "the tombstone", takeLeft(s.Store, "a"), []string{test.want})
		})
	}
}
