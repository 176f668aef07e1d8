package engine

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// The reasons of a condition that reports a handler.
const (
	reasonRunning   = "Running"   // the handler has not finished
	reasonSucceeded = "Succeeded" // the handler has succeeded
	reasonRetrying  = "Retrying"  // the handler has failed and will be retried
	reasonFailed    = "Failed"    // the handler has failed permanently
)

// reportConditions adds the conditions that report handlers, and the root condition, to the pending changes. Declared conditions are set in the first
// reconcile of the object.
func (e *Engine) reportConditions(ctx context.Context, r *reconciliation) {
	if r.reportRejected || len(e.DeclaredConditions) == 0 && e.Root == nil && e.PanicCondition == "" && !e.hasReports(r) || r.gone || r.leaving {
		return
	}
	if len(r.matching)+len(r.backgroundIDs) == 0 && !r.hasReconcileHandlers {
		return // no handler matches the object
	}
	obj := r.object.DeepCopyObject().(client.Object)
	set, err := conditions.For(obj, append(e.conditionOptions(), conditions.Since(r.before))...)
	if err == nil {
		e.setHandlerConditions(r, set)
		err = set.Err()
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to report the conditions")
		return
	}
	if !set.Changed() {
		return
	}
	s := &handlerPatch{isReport: true, base: r.current}
	changed, _, err := e.handlerChanges(ctx, r, "", obj)
	if err == nil && len(changed) > 0 {
		s.doc = r.rebased(changed)
		err = e.applyChanges(r, changed)
		r.handlerPatches = append(r.handlerPatches, s)
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to report the conditions")
	}
}

// hasReports reports whether a handler of the cause has a condition.
func (e *Engine) hasReports(r *reconciliation) bool {
	return len(r.reconcileOutcome) > 0 || slices.ContainsFunc(r.selection.Selected, func(id string) bool {
		handler, _ := e.Handlers.Get(id)
		return handler.ConditionType != ""
	})
}

// setHandlerConditions sets the conditions that report handlers.
func (e *Engine) setHandlerConditions(r *reconciliation, set *conditions.Set) {
	if !r.cause.Facts.Deleting {
		set.Declare(e.DeclaredConditions...)
	}
	if r.cause.Reason.HasHandlers() {
		for _, id := range r.selection.Selected {
			handler, _ := e.Handlers.Get(id)
			if handler.ConditionType == "" || r.isSetByHandler(handler.ConditionType) {
				continue
			}
			record := r.state.Record(id)
			if slices.Contains(r.called, id) || !record.Success && record.Retries == 0 { // it waits, or it was skipped
				set.Set(conditionFromRecord(handler.ConditionType, record))
			}
		}
	}
	for _, one := range r.reconcileOutcome {
		if r.isSetByHandler(one.condition) {
			continue
		}
		if o := one.handlerPatch.outcome; !o.Interrupted {
			record := progress.Record{Success: o.Success, Failure: o.Final && !o.Success}
			if o.Err != nil {
				record.Message = o.Err.Error()
			}
			set.Set(conditionFromRecord(one.condition, record))
		}
	}
	e.setProgressNotStored(r, set)
	e.setPaused(r, set)
	e.setHandlerLoop(r, set)
	e.setPanicked(r, set)
	if e.Root != nil && !r.cause.Facts.Deleting {
		set.Summarize(*e.Root)
	}
}

// isSetByHandler reports whether a handler has set the condition itself in this reconcile. Its value then has precedence.
func (r *reconciliation) isSetByHandler(kind string) bool {
	return slices.Contains(r.conditionsSet, kind)
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

// reconcileOutcome is the outcome of a reconcile handler with a condition.
type reconcileOutcome struct {
	condition    string
	handlerPatch *handlerPatch // its outcome may still change
}

// noteConditionSetByHandler records whether a handler has set its own condition. A handler that was not called has none.
func (e *Engine) noteConditionSetByHandler(r *reconciliation, before map[string]any, h invoke.Handler) {
	if h.ConditionType != "" && before != nil && !equality.Semantic.DeepEqual(e.conditionIn(before, h.ConditionType), e.conditionIn(r.current, h.ConditionType)) {
		r.conditionsSet = append(r.conditionsSet, h.ConditionType)
	}
}

// conditionIn returns a condition in the JSON form of an object; the zero one if it is absent.
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
	return conditions.For(obj, e.conditionOptions()...)
}

// conditionStatuses returns the function that finds the statuses of conditions whose transitions handlers handle, if the conditions are not in
// status.conditions.
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
		for _, condition := range slices.Backward(set.List()) { // the first one of a type has precedence
			if slices.Contains(e.Conditions, condition.Type) && condition.Status != "" {
				out[condition.Type] = string(condition.Status)
			}
		}
		return out
	}
}
