package kopf

import (
	"context"
)

// Warmup fills the caches and the indexes of a replica that waits for leadership, if EnableWarmup of the manager's controller options is true. The manager
// calls Warmup. Without EnableWarmup, or without leader election for controllers, it does nothing.
//
// Warmup writes nothing. It starts the watches of the kinds and their related kinds, and calls the functions of [IndexBy], even before the functions of
// [OnStartup]. It calls no other handlers. The replica then needs as much memory for its caches as the leader. [Operator.Readyz] fails until the caches and the
// indexes have synced. Kinds of [WhenServed] and [ForKinds] have caches of their own, which only
// the leader fills. With [WithNamespaces], [WithNamespaceFunc], [WithWatchSelector] or [WithSharding], Warmup does nothing.
//
// A replica that becomes the leader compares its caches with the API server. For this, it lists the metadata of the objects once for each kind, or once for
// each namespace to which the cache of the manager is restricted.
func (o *Operator) Warmup(ctx context.Context) error {
	if !o.warmsUp() {
		return nil
	}
	all, err := o.resolved()
	if err != nil {
		return err
	}
	fixed, _ := o.watchedKinds(all)
	o.kinds.Warm(ctx, fixed)
	return nil
}
