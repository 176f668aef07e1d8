package kopf

import (
	"context"
	"errors"
	"fmt"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
)

// Start checks the declaration, discovers the kinds in the API server, and handles their objects until the context is cancelled. It returns an
// error if the declaration is invalid, if the API server does not serve a kind (see [WhenServed]), or if required permissions are missing (see
// [WithRightsCheck]). It also returns an error if a controller or the peering fails, if the Lease of a shard is lost (see [WithSharding]), or if a
// function of [OnStartup] or [OnCleanup] fails permanently. The manager calls Start.
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
	o.kinds.SetUnsynced(1)
	o.kinds.Warmth.Done()
	defer o.kinds.EndStart()
	if err := o.functions.run(ctx, o.kinds, "startup", o.functions.startup); err != nil {
		if ctx.Err() != nil {
			return nil // the operator was stopped during its startup
		}
		return fmt.Errorf("the operator cannot start:\n%w", err)
	}
	err = o.kinds.Ring.Run(ctx, func(ctx context.Context) error { return o.runControllers(ctx, all) })
	cleanupErr := o.functions.run(context.WithoutCancel(ctx), o.kinds, "cleanup", o.functions.cleanup)
	return errors.Join(err, cleanupErr)
}

// runControllers runs the parts of the operator until the context is cancelled.
func (o *Operator) runControllers(ctx context.Context, all []engine.Kind) error {
	s := &starting{operator: o, settings: o.kinds.Settings}
	s.settings.SharesFinalizer = s.settings.Finalizer == DefaultFinalizer
	s.fixed, s.whenServed = o.watchedKinds(all)
	return operator.Run(ctx, o.mgr.GetLogger(), o.parts(s))
}
