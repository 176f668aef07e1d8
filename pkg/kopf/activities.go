package kopf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// OnStartup adds a function that the operator calls when it starts. The functions are called one after the other, in the order in which you
// added them. Failed functions are retried like handlers; the others don't wait for that. The operator only discovers its kinds and handles
// objects after all functions have finished. If one of them fails permanently, [Operator.Start] returns an error. The supported options are
// [Retries], [Timeout], [AttemptTimeout], [Backoff], [BackoffFunc] and [ErrorMode].
//
// Equivalent in kopf: @kopf.on.startup.
func OnStartup(id string, fn func(ctx context.Context) error, opts ...HandlerOption) Option {
	return activityOption(&activity{declaration: declaration{id: id, method: "OnStartup", handlerKind: activityHandler}, fn: fn}, opts,
		func(o *Operator) *[]*activity { return &o.functions.startup })
}

// OnCleanup adds a function that the operator calls when it stops, after the handlers have returned. It isn't called if an [OnStartup]
// function has failed permanently or hasn't finished. Its context isn't cancelled, but the manager only waits for its
// GracefulShutdownTimeout. The options are the same as for [OnStartup].
//
// Equivalent in kopf: @kopf.on.cleanup.
func OnCleanup(id string, fn func(ctx context.Context) error, opts ...HandlerOption) Option {
	return activityOption(&activity{declaration: declaration{id: id, method: "OnCleanup", handlerKind: activityHandler}, fn: fn}, opts,
		func(o *Operator) *[]*activity { return &o.functions.cleanup })
}

func activityOption(a *activity, opts []HandlerOption, list func(*Operator) *[]*activity) Option {
	a.apply(opts)
	return optionFunc(func(o *Operator) {
		if a.id == "" {
			a.addErrorf("the id is empty: set one")
		}
		fn := a.fn
		if fn == nil {
			a.addErrorf("the function is nil: pass a function")
		}
		a.fn = func(ctx context.Context) error { return guard.Call("", func() error { return fn(ctx) }) }
		all := list(o)
		if slices.ContainsFunc(*all, func(other *activity) bool { return other.id == a.id }) {
			a.addErrorf("the id is used twice: rename one of the functions")
		}
		for _, err := range a.errs {
			o.addError(fmt.Errorf("%s: %w", a.displayName(), err))
		}
		*all = append(*all, a)
	})
}

// run calls the activities in order and retries each until it has succeeded or failed permanently. It returns the joined permanent
// failures, or the context's error if it is cancelled first.
func (f *functions) run(ctx context.Context, rt *kinds.Runtime, reason string, activities []*activity) error {
	ctx = objectstate.ContextWithMemos(ctx, &f.memos)
	records := make([]progress.Record, len(activities))
	failed := make([]error, len(activities))
	for {
		var next time.Time
		for i, a := range activities {
			record := &records[i]
			if record.Started.IsZero() {
				record.Started = time.Now()
			}
			if record.Due(time.Now()) {
				outcome := invoke.Attempt(log.IntoContext(ctx, rt.Manager.GetLogger()), invoke.Invocation{
					Kind: "operator", ID: a.id, Reason: reason, Policy: rt.Settings.PolicyOf(a.Policy), Record: *record, Func: a.fn, Warnings: &a.hints,
				})
				*record = record.WithOutcome(outcome, time.Now())
				if record.Failure {
					failed[i] = fmt.Errorf("%s: %w", a.displayName(), outcome.Err)
				}
			}
			if !record.Finished() && (next.IsZero() || record.Delayed.Before(next)) {
				next = record.Delayed
			}
		}
		if next.IsZero() && !slices.ContainsFunc(records, func(r progress.Record) bool { return !r.Finished() }) {
			return errors.Join(failed...)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(next)):
		}
	}
}
