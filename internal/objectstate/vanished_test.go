package objectstate_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"
)

// When the watch has missed a deletion, the answer to our own last write is the last known state.
func TestBury_MissedDeletionKeepsOwnWrite(t *testing.T) {
	for name, test := range map[string]struct {
		unknown bool
		want    string
	}{"missed": {true, "1@9"}, "seen": {false, "1@5"}} {
		t.Run(name, func(t *testing.T) {
			s := newStage()
			s.created(t, object("a", "1", "3"), false)
			s.Learn(object("a", "1", "9"))
			s.Inventory.EventHandler(nil).Delete(t.Context(), event.DeleteEvent{Object: object("a", "1", "5"), DeleteStateUnknown: test.unknown}, s.queue)
			equal(t, "the tombstone", exhumed(s.Inventory, "a"), []string{test.want})
		})
	}
}
