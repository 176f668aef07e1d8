package engine

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// A witness learns of every state of every object before anybody is woken for it: indexes are kept, and what
// accompanies an object that is being deleted is stopped, even if all workers are busy.
type witness struct{ *Engine }

// Sees implements [inventory.Witness].
func (w witness) Sees(ctx context.Context, obj client.Object) {
	if len(w.Indexes.IDs()) > 0 {
		w.index(ctx, obj)
	}
	if len(w.Backgrounds.IDs()) > 0 && obj.GetDeletionTimestamp() != nil {
		w.supervisor.StopAll(obj.GetUID(), daemons.ErrDeleted)
	}
}

// Loses implements [inventory.Witness].
func (w witness) Loses(obj client.Object) {
	w.unindex(obj)
	w.supervisor.Forget(obj.GetUID())
}
