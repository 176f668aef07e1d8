package kopf

import (
	"context"
	"errors"
	"fmt"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
)

// Start checks the declaration, discovers the kinds in the API server, and handles their objects until the context is cancelled. The
// manager calls it. It returns an error if the declaration is invalid, if the API server doesn't serve a kind (see [WhenServed]), or if
// required permissions are missing (see [WithRightsCheck]). It also returns an error if a controller or the peering fails, if a shard loses
// its Lease (see [WithSharding]), or if a function of [OnStartup] or [OnCleanup] fails permanently.
func (o *Operator) Start(ctx context.Context) error {
	engineKinds := o.engineKinds
	if o.warmsUp() {
		engineKinds = o.resolved
	}
	all, err := engineKinds()
	if err != nil {
		return err
	}
	if err := o.kinds.Ring.CheckServed(ctx, all); err != nil {
		return err
	}
	o.kinds.BeginStart()
	defer o.kinds.EndStart()
	if err := o.functions.run(ctx, o.kinds, "startup", o.functions.startup); err != nil {
		if ctx.Err() != nil {
			return nil // the operator was stopped while it was starting
		}
		return fmt.Errorf("the operator cannot start:\n%w", err)
	}
	err = o.kinds.Ring.Run(ctx, func(ctx context.Context) error { return o.runControllers(ctx, all) })
	cleanupErr := o.functions.run(context.WithoutCancel(ctx), o.kinds, "cleanup", o.functions.cleanup)
	return errors.Join(err, cleanupErr)
}

// settings returns the settings of the engines, apart from what the parts of the operator provide.
func (o *Operator) settings() engine.Settings {
	settings := o.kinds.Settings
	settings.SharesFinalizer = settings.Finalizer == DefaultFinalizer
	return settings
}

func (o *Operator) runControllers(ctx context.Context, all []engine.Kind) error {
	s := &starting{operator: o, settings: o.settings()}
	s.fixed, s.whenServed = o.watchedKinds(all)
	return operator.Run(ctx, o.mgr.GetLogger(), o.parts(s))
}

// watchedKinds returns the kinds that the operator watches from the start, and the kinds of [WhenServed]. It omits kinds with only
// admission handlers, because their objects aren't watched.
func (o *Operator) watchedKinds(all []engine.Kind) (fixed, whenServed []kinds.Kind) {
	for i, r := range o.resources {
		kind := watchedKind(all[i], r)
		switch {
		case r.hasOnlyAdmission():
		case kind.WhenServed:
			kind.Client = o.kinds.Clients.Of(o.mgr, r.identity())
			whenServed = append(whenServed, kind)
		default:
			fixed = append(fixed, kind)
		}
	}
	return fixed, whenServed
}

// watchedKind returns the declaration of a kind without its Go type.
func watchedKind(kind engine.Kind, r resource) kinds.Kind {
	options := r.options()
	return kinds.Kind{
		Kind: kind, Controller: options.controller, Predicates: options.predicates, WhenServed: options.whenServed,
		Related: r.relatedKinds(), Events: r.eventSelections(), Triggers: r.triggerSources(), CheckFields: fieldCheck(r),
	}
}

// Warmup fills the caches and the indexes of a replica that is waiting to become the leader. The manager calls it. It does nothing unless
// EnableWarmup is true in the manager's controller options and the controllers use leader election.
//
// Warmup doesn't write anything. It starts the watches of the kinds and their related kinds, and calls the functions of [IndexBy], even
// before those of [OnStartup], but no other handlers. The replica then needs as much memory for its caches as the leader, and
// [Operator.Readyz] fails until the caches and the indexes have synced.
//
// When the replica becomes the leader, it compares its caches with the API server. To do so, it lists the objects' metadata once for each
// kind, or once for each kind and namespace if the manager's cache is restricted to namespaces. It lists the objects again for kinds of
// [WhenServed] and [ForKinds], whose indexes are empty until then, and with [WithNamespaces] or [WithNamespaceFunc].
func (o *Operator) Warmup(ctx context.Context) error {
	if !o.warmsUp() {
		return nil
	}
	all, err := o.resolved()
	if err != nil {
		return err
	}
	settings := o.kinds.Settings
	settings.Log = o.mgr.GetLogger().WithValues("operator", operator.Identity(nil))
	fixed, whenServed := o.watchedKinds(all)
	dynamic, err := o.kinds.NewDynamic(settings, fixed, whenServed, o.selectors())
	if err != nil {
		return err
	}
	o.kinds.Warm(ctx, fixed, dynamic)
	return nil
}
