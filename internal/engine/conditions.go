package engine

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// The reasons of a condition that reports a handler.
const (
	reasonRejected  = "Rejected"  // the API server has rejected the progress
	reasonRunning   = "Running"   // the handler has not finished
	reasonSucceeded = "Succeeded" // the handler has succeeded
	reasonRetrying  = "Retrying"  // the handler has failed and will be retried
	reasonFailed    = "Failed"    // the handler has failed permanently
)

// reportConditions adds the conditions about handlers, and the root condition, to the pending changes. Declared conditions are set in
// the object's first reconcile.
func (e *Engine) reportConditions(ctx context.Context, r *reconciliation) {
	if r.session.ReportRejected || len(e.DeclaredConditions) == 0 && e.Root == nil && e.PanicCondition == "" && !e.hasReports(r) || r.session.Gone || r.session.Leaving {
		return
	}
	if len(r.matching.handlers)+len(r.matching.background) == 0 && !r.matching.reconciles {
		return // no handler matches the object
	}
	obj := r.draft.Current().Object.DeepCopyObject().(client.Object)
	var set *conditions.Set
	err := e.guard(func() (err error) {
		if set, err = conditions.For(obj, append(e.traits.conditionPlaces, conditions.Since(r.draft.Base()))...); err == nil {
			e.setHandlerConditions(r, set)
			err = set.Err()
		}
		return err
	})
	if err != nil {
		guard.WithStack(log.FromContext(ctx), err).Error(err, "Failed to report the conditions")
		return
	}
	if !set.Changed() {
		return
	}
	p := &commit.HandlerPatch{Report: true, Base: r.draft.Current().Content}
	if p.Patch, err = e.committer.TakeChanges(ctx, r.draft, "", obj); err == nil {
		r.draft.Add(p)
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to report the conditions")
	}
}

// hasReports reports whether a selected cause handler has a condition, or a reconcile handler with one was called.
func (e *Engine) hasReports(r *reconciliation) bool {
	return slices.ContainsFunc(r.report.attempts, attempt.reportsReconcile) || slices.ContainsFunc(r.matching.selection.Selected, func(id string) bool {
		handler, _ := e.Handlers.Get(id)
		return handler.ConditionType != ""
	})
}

// setHandlerConditions sets the conditions about handlers.
func (e *Engine) setHandlerConditions(r *reconciliation, set *conditions.Set) {
	if !r.session.Cause.Facts.Deleting {
		set.Declare(e.DeclaredConditions...)
	}
	if r.session.Cause.Reason.HasHandlers() {
		for _, id := range r.matching.selection.Selected {
			handler, _ := e.Handlers.Get(id)
			if handler.ConditionType == "" || e.isSetByHandler(r, handler.ConditionType) {
				continue
			}
			record := r.session.Records.Record(id)
			if slices.Contains(r.calls.called, id) || !record.Success && record.Retries == 0 { // it waits, or it was skipped
				condition := conditionFromRecord(handler.ConditionType, record)
				condition.ObservedGeneration = r.generationSeenBy(id)
				set.Set(condition)
			}
		}
	}
	for _, a := range r.report.attempts {
		if o := a.Outcome; a.reportsReconcile() && !o.Interrupted && !e.isSetByHandler(r, a.conditionType) {
			record := progress.Record{Success: o.Success, Failure: o.Final && !o.Success}
			if o.Err != nil {
				record.Message = o.Err.Error()
			}
			condition := conditionFromRecord(a.conditionType, record)
			condition.ObservedGeneration = r.generationSeenBy(a.ID)
			set.Set(condition)
		}
	}
	e.setProgressNotStored(r, set)
	e.setPaused(r, set)
	e.setHandlerLoop(r, set)
	e.setPanicked(r, set)
	if e.Root != nil && !r.session.Cause.Facts.Deleting {
		set.Summarize(*e.Root)
	}
}

// generationSeenBy returns the generation that a handler's last attempt in this reconcile has received, or the one that our own writes have
// made of it. It returns 0 if there was no attempt, or if the kind has no status subresource.
func (r *reconciliation) generationSeenBy(id string) int64 {
	if !r.engine.HasStatus {
		return 0
	}
	for _, a := range slices.Backward(r.report.attempts) {
		if a.ID != id || a.Base == nil {
			continue
		}
		generation, _, _ := unstructured.NestedInt64(a.Base, "metadata", "generation")
		if raised := r.session.Raised(); raised.Contains(generation) {
			return raised.To
		}
		return generation
	}
	return 0
}

// setProgressNotStored sets or removes the condition that reports rejected progress, for kinds that declare conditions.
func (e *Engine) setProgressNotStored(r *reconciliation, set *conditions.Set) {
	switch {
	case len(e.DeclaredConditions) == 0:
	case r.details.Memory.Overlay == nil:
		set.Remove(commit.ProgressNotStored)
	default:
		set.True(commit.ProgressNotStored, reasonRejected, r.details.Memory.Overlay.Message)
	}
}

// reportsReconcile reports whether the attempt is that of a reconcile handler with a condition.
func (a attempt) reportsReconcile() bool { return a.reconciles != nil && a.conditionType != "" }

// isSetByHandler reports whether a handler has set its own condition in this reconcile. The handler's value takes precedence.
func (e *Engine) isSetByHandler(r *reconciliation, kind string) bool {
	return slices.ContainsFunc(r.report.attempts, func(a attempt) bool {
		return a.conditionType == kind && a.Base != nil && // it is nil if the handler was not called
			!equality.Semantic.DeepEqual(e.conditionIn(a.Base, kind), e.conditionIn(a.after, kind))
	})
}

// conditionFromRecord returns the condition that reports a record.
func conditionFromRecord(kind string, record progress.Record) metav1.Condition {
	out := metav1.Condition{Type: kind, Status: metav1.ConditionUnknown, Reason: reasonRunning}
	switch {
	case record.Success:
		out.Status, out.Reason = metav1.ConditionTrue, reasonSucceeded
	case record.Failure:
		out.Status, out.Reason, out.Message = metav1.ConditionFalse, reasonFailed, record.Message
	case record.Message != "":
		out.Status, out.Reason, out.Message = metav1.ConditionFalse, reasonRetrying, record.Message
	}
	return out
}

// conditionIn returns a condition from an object's JSON form, or the zero one if it is absent.
func (e *Engine) conditionIn(content map[string]any, kind string) metav1.Condition {
	set, err := e.conditionsIn(content)
	if err != nil {
		return metav1.Condition{}
	}
	found, _ := set.Get(kind)
	return found
}

func (e *Engine) conditionsIn(content map[string]any) (*conditions.Set, error) {
	obj := e.New()
	if err := patch.FromContent(content, obj); err != nil {
		return nil, err
	}
	return conditions.For(obj, e.traits.conditionPlaces...)
}

// conditionStatuses returns a function that finds the statuses of the conditions in [Kind.Conditions]. It returns nil if there are no such
// conditions, or if they are stored in status.conditions.
func (e *Engine) conditionStatuses() func(content map[string]any) map[string]any {
	if len(e.ConditionOptions) == 0 || len(e.Conditions) == 0 {
		return nil
	}
	return func(content map[string]any) map[string]any {
		set, err := e.conditionsIn(content)
		if err != nil {
			return nil
		}
		out := map[string]any{}
		for _, condition := range slices.Backward(set.List()) { // the first one of a type takes precedence
			if slices.Contains(e.Conditions, condition.Type) && condition.Status != "" {
				out[condition.Type] = string(condition.Status)
			}
		}
		return out
	}
}

// setPaused sets or removes the condition that reports the pause, for kinds that declare conditions.
func (e *Engine) setPaused(r *reconciliation, set *conditions.Set) {
	switch {
	case len(e.DeclaredConditions) == 0:
	case IsObjectPaused(r.draft.Base()):
		set.True(conditionPaused, reasonAnnotation, "The annotation "+PausedAnnotation+" pauses the object.")
	default:
		set.Remove(conditionPaused)
	}
}
