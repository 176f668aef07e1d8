package engine

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// observer updates the indexes, and stops the daemons and timers of deleted objects even if all workers are busy.
type observer struct{ *Engine }

// OnUpsert implements [objectstate.Observer].
func (w observer) OnUpsert(ctx context.Context, obj client.Object) {
	if len(w.Indexes.IDs()) > 0 {
		w.updateIndexes(ctx, obj)
	}
	if len(w.BackgroundHandlers.IDs()) > 0 && obj.GetDeletionTimestamp() != nil {
		w.supervisor.StopAll(obj.GetUID(), daemons.ErrDeleted)
	}
}

// OnDelete implements [objectstate.Observer].
func (w observer) OnDelete(obj client.Object) {
	w.removeFromIndexes(obj)
	w.supervisor.Forget(obj.GetUID())
}
