package engine

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// A vanished object is not shown any more when its delete handlers have finished, even if another one has the same key.
func TestHandleVanished_RemovesFinishedTombstones(t *testing.T) {
	var e *Engine
	gone := newObject(nil)
	gone.Name = "gone"
	key := client.ObjectKeyFromObject(gone)
	left := map[types.UID]int{} // the number of vanished objects during the call for an object
	handler := onReasons(cause.Delete)
	handler.Do = func(_ context.Context, req *invoke.Request) error {
		left[req.Object.GetUID()] = len(e.gone.tombstones.Get(key))
		return nil
	}
	e, _ = explainable(t, newObject(nil), handler)
	var all []*tombstone
	for _, uid := range []types.UID{"1", "2"} {
		last := gone.DeepCopy()
		last.UID, last.Finalizers = uid, []string{e.Finalizer}
		all = append(all, &tombstone{last: last, known: &objectState{}, memos: &objectstate.Memos{}})
	}
	e.gone.tombstones.Set(key, all)
	if wait := e.handleVanished(t.Context(), key); wait != 0 || len(e.Vanished()) != 0 {
		t.Errorf("the next call is in %s, and %v are left", wait, e.Vanished())
	}
	if left["1"] != 2 || left["2"] != 1 {
		t.Errorf("vanished objects during the calls: %v, want 2 and then 1", left)
	}
}
