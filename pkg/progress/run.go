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

// A Step is one handler of [Run].
type Step struct {
	// ID identifies the step in the stored records. With a new ID, it is a new step.
	ID string
	// Do makes an attempt. It can return [Temporary] and [Permanent] errors.
	Do func(ctx context.Context, attempt Attempt) error
	// Policy defines the retries. The zero value retries without limit.
	Policy Policy
}

// A Report is the result of [Run].
type Report struct {
	// Done reports whether every step has succeeded or failed permanently.
	Done bool
	// RequeueAfter is the time until the next step is due; 0 if all steps have finished.
	RequeueAfter time.Duration
	// Failed maps the ids of permanently failed steps to their stored error messages.
	Failed map[string]string
}

// Run calls the due steps of a cause one after the other, and stores their progress on the object. A failed step doesn't block those after
// it. Finished steps aren't called again for the same cause, even after a restart of the process. A new cause, such as "generation-7",
// starts them again, while unfinished steps keep their attempts and delays.
//
// Run changes the object only in memory. Write it to the API server even if Run returns an error:
//
//	before := obj.DeepCopy()
//	report, err := progress.Run(ctx, progress.Annotations("example.com"), obj, cause, steps...)
//	if err := errors.Join(err, r.Patch(ctx, obj, client.MergeFrom(before))); err != nil {
//		return reconcile.Result{}, err
//	}
//	return reconcile.Result{RequeueAfter: report.RequeueAfter}, nil
//
// Run returns an error if the arguments are invalid, for example because two ids conflict, or if the store fails. The errors of permanently
// failed steps are in the report. Run neither logs nor
// returns any other error of a step, such as one that will be retried.
func Run(ctx context.Context, store Store, obj client.Object, cause string, steps ...Step) (Report, error) {
	if err := checkSteps(store, cause, steps); err != nil {
		return Report{}, err
	}
	ids := make([]string, len(steps))
	for i, step := range steps {
		ids[i] = step.ID
	}
	state, err := Load(store, obj, ids)
	if err != nil { // Save overwrites the unreadable records below
		log.FromContext(ctx).Info("Stored progress is unreadable; starting the affected steps again", "error", err.Error())
	}
	state.Begin(cause, ids, time.Now())
	for _, step := range steps {
		record := state.Record(step.ID)
		if now := time.Now(); record.Due(now) && ctx.Err() == nil {
			outcome := step.Policy.Attempt(ctx, record, now, func(ctx context.Context) error {
				return step.Do(ctx, record.Attempt())
			})
			state.RecordOutcome(step.ID, outcome, time.Now())
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
	var errs []error
	if cause == "" {
		errs = append(errs, errors.New("the cause is empty: pass a name that identifies the change"))
	}
	var ids, keys []string
	checker, _ := store.(KeyChecker)
	for _, step := range steps {
		key := step.ID
		if checker != nil {
			var err error
			if key, err = checker.Key(step.ID); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		if step.Do == nil {
			errs = append(errs, fmt.Errorf("step %q has no function: set Do", step.ID))
		}
		if i := slices.Index(keys, key); i >= 0 {
			errs = append(errs, fmt.Errorf("steps %q and %q have the same storage key: rename one of them", ids[i], step.ID))
		}
		ids, keys = append(ids, step.ID), append(keys, key)
	}
	return errors.Join(errs...)
}
