package kopf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/execution"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// OnStartup adds something to do when the operator starts, before it asks the API server for anything. A
// failure for good stops the operator; other errors are retried, as those of handlers are, and the start
// waits. Options are those about attempts: [Retries], [Timeout], [AttemptTimeout], [Backoff],
// [BackoffFunc], [Errors].
//
// kopf: @kopf.on.startup.
func OnStartup(id string, fn func(ctx context.Context) error, opts ...HandlerOption) Option {
	return activityOption(&activity{declaration: declaration{id: id, method: "OnStartup", handlerKind: activityHandler}, fn: fn}, opts,
		func(o *Operator) *[]*activity { return &o.startup })
}

// OnCleanup adds something to do when the operator stops, after all its handlers have come to their ends.
// Its context is not done, but the manager waits no longer than its GracefulShutdownTimeout. It is not
// called if the startup has failed. Options are as for [OnStartup].
//
// kopf: @kopf.on.cleanup.
func OnCleanup(id string, fn func(ctx context.Context) error, opts ...HandlerOption) Option {
	return activityOption(&activity{declaration: declaration{id: id, method: "OnCleanup", handlerKind: activityHandler}, fn: fn}, opts,
		func(o *Operator) *[]*activity { return &o.cleanup })
}

// An activity is a handler of the operator itself.
type activity struct {
	declaration
	fn    func(context.Context) error
	hints execution.Warnings
}

func activityOption(a *activity, opts []HandlerOption, list func(*Operator) *[]*activity) Option {
	a.apply(opts)
	return optionFunc(func(o *Operator) {
		if a.id == "" {
			a.addErrorf("the id is empty: give it a name")
		}
		if a.fn == nil {
			a.addErrorf("the function is nil: give it one")
		}
		all := list(o)
		if slices.ContainsFunc(*all, func(other *activity) bool { return other.id == a.id }) {
			a.addErrorf("the id is used twice: give one of the functions another id")
		}
		for _, err := range a.errs {
			o.addError(fmt.Errorf("%s: %w", a.displayName(), err))
		}
		*all = append(*all, a)
	})
}

// perform calls the activities, in order, until all of them have succeeded or failed for good, and tells
// which have failed.
func (o *Operator) runActivities(ctx context.Context, reason string, activities []*activity) error {
	ctx = objectstate.ContextWithMemos(ctx, &o.memos)
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
				outcome := execution.Invoke(log.IntoContext(ctx, o.mgr.GetLogger()), execution.Invocation{
					Kind: "operator", ID: a.id, Reason: reason, Policy: a.Policy, Record: *record, Func: a.fn, Warnings: &a.hints,
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
