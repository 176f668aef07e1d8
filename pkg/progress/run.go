package progress

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// A Step is one piece of work of [Run].
type Step struct {
	// ID names the step on the object; changing it makes it another step.
	ID string
	// Do makes an attempt. Its errors mean what they mean everywhere: see [Temporary], [Permanent].
	Do func(ctx context.Context, attempt Attempt) error
	// Policy of its retries; the zero value tries for ever.
	Policy Policy
}

// A Report says how far [Run] has come.
type Report struct {
	// Done: every step has succeeded or failed for good.
	Done bool
	// RequeueAfter is when to come back; 0 when there is nothing to come back for.
	RequeueAfter time.Duration
	// Failed are the errors of the steps that failed for good, by id, as they are remembered.
	Failed map[string]string
}

// Run calls the steps of a cause that are due, in order, and remembers on the object how each of
// them ended: those that are finished are not called again for this cause, whatever restarts.
// A new cause (say, "generation-7") begins anew.
//
// Run changes the object in memory; the caller writes it, after an error of its own steps too:
//
//	before := obj.DeepCopy()
//	report, err := progress.Run(ctx, progress.Annotations("example.com"), obj, cause, steps...)
//	if err := errors.Join(err, r.Patch(ctx, obj, client.MergeFrom(before))); err != nil {
//		return reconcile.Result{}, err
//	}
//	return reconcile.Result{RequeueAfter: report.RequeueAfter}, nil
//
// The error is not that of a step: it says that ids clash, or that the store has failed.
func Run(ctx context.Context, store Store, obj client.Object, cause string, steps ...Step) (Report, error) {
	if err := checkSteps(store, cause, steps); err != nil {
		return Report{}, err
	}
	ids := make([]string, len(steps))
	for i, step := range steps {
		ids[i] = step.ID
	}
	state, unreadable := Load(store, obj, ids)
	if unreadable != nil { // it is absent, and written anew below
		log.FromContext(ctx).Info("Warning: stored progress is unreadable and taken as absent", "error", unreadable.Error())
	}
	state.Begin(cause, ids, time.Now())
	for _, step := range steps {
		record := state.Record(step.ID)
		if now := time.Now(); record.Due(now) && ctx.Err() == nil {
			outcome := step.Policy.Attempt(ctx, record, now, func(ctx context.Context) error {
				return step.Do(ctx, record.Attempt())
			})
			state.Settle(step.ID, outcome, time.Now())
		}
	}
	report := Report{Done: state.Done()}
	if delay, left := state.Delay(time.Now()); left {
		report.RequeueAfter = max(delay, time.Millisecond)
	}
	for _, id := range ids {
		if record := state.Record(id); record.Failure {
			if report.Failed == nil {
				report.Failed = map[string]string{}
			}
			report.Failed[id] = record.Message
		}
	}
	return report, state.Save(store, obj)
}

func checkSteps(store Store, cause string, steps []Step) error {
	var problems []error
	if cause == "" {
		problems = append(problems, errors.New("the cause is empty: name it, finished steps are remembered for it"))
	}
	var ids, keys []string
	checker, _ := store.(KeyChecker)
	for _, step := range steps {
		key := step.ID
		if checker != nil {
			var err error
			if key, err = checker.Key(step.ID); err != nil {
				problems = append(problems, err)
				continue
			}
		}
		if step.Do == nil {
			problems = append(problems, fmt.Errorf("step %q has nothing to do: set Do", step.ID))
		}
		if i := slices.Index(keys, key); i >= 0 {
			problems = append(problems, fmt.Errorf("steps %q and %q would be remembered in one place: rename one", ids[i], step.ID))
		}
		ids, keys = append(ids, step.ID), append(keys, key)
	}
	return errors.Join(problems...)
}
