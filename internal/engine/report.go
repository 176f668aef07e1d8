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

// Why a condition that reports of a handler is what it is.
const (
	reasonRunning   = "Running"   // it was not done yet
	reasonSucceeded = "Succeeded" // it is done
	reasonRetrying  = "Retrying"  // it has failed, and will be called again
	reasonFailed    = "Failed"    // it has failed for good
)

// report adds what conditions are to say about the handlers, and the root that sums them up, to what is written
// at once: the declared ones from the first visit on, those that report of a handler when that was called.
func (e *Engine) reportConditions(ctx context.Context, r *reconciliation) {
	if r.reportRejected || len(e.DeclaredConditions) == 0 && e.Root == nil && !e.hasReports(r) || r.gone || r.leaving {
		return
	}
	if len(r.matching)+len(r.backgroundIDs) == 0 && !r.hasReconcileHandlers {
		return // the object is nobody's business
	}
	obj := r.object.DeepCopyObject().(client.Object)
	set, err := conditions.For(obj, append(e.conditionOptions(), conditions.Since(r.before))...)
	if err == nil {
		e.describeHandlers(r, set)
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
	changed, err := e.handlerChanges(ctx, r, "", obj)
	if err == nil && len(changed) > 0 {
		s.doc = r.rebased(changed)
		err = e.applyChanges(r, changed)
		r.handlerPatches = append(r.handlerPatches, s)
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to report the conditions")
	}
}

// conditionOptions say where the conditions of the kind are.
func (e *Kind) conditionOptions() []conditions.Option {
	options := slices.Clone(e.ConditionOptions)
	if !e.HasStatus {
		options = append(options, conditions.WithoutSubresource())
	}
	return options
}

// reporting reports whether a handler that takes part in the cause has a condition.
func (e *Engine) hasReports(r *reconciliation) bool {
	return len(r.reconcileOutcome) > 0 || slices.ContainsFunc(r.selection.Selected, func(id string) bool {
		handler, _ := e.Handlers.Get(id)
		return handler.ConditionType != ""
	})
}

func (e *Engine) describeHandlers(r *reconciliation, set *conditions.Set) {
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
			if slices.Contains(r.called, id) || !record.Success && record.Retries == 0 { // it waits, or was skipped permanently
				set.Set(conditionOf(handler.ConditionType, record))
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
			set.Set(conditionOf(one.condition, record))
		}
	}
	e.describeOverlay(r, set)
	if e.Root != nil && !r.cause.Facts.Deleting {
		set.Summarize(*e.Root)
	}
}

// said reports whether a handler has set the condition itself in this pass: that is more than we know.
func (r *reconciliation) isSetByHandler(kind string) bool {
	return slices.Contains(r.conditionsSet, kind)
}

func conditionOf(kind string, record progress.Record) metav1.Condition {
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

// A told outcome is that of a level-triggered handler with a condition.
type reconcileOutcome struct {
	condition    string
	handlerPatch *handlerPatch // which may be withheld
}

// listen takes note of the condition of a handler if that has set it itself: then it is not for us to say. A handler that was
// given up was not called, and has not been shown anything.
func (e *Engine) noteConditions(r *reconciliation, before map[string]any, h invoke.Handler) {
	if h.ConditionType != "" && before != nil && !equality.Semantic.DeepEqual(e.conditionIn(before, h.ConditionType), e.conditionIn(r.current, h.ConditionType)) {
		r.conditionsSet = append(r.conditionsSet, h.ConditionType)
	}
}

// conditionIn finds a condition in the JSON form of an object; the zero one if it is not there.
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

// statuses are what those conditions say whose transitions are news, if they are not at the usual place.
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
		for _, condition := range slices.Backward(set.List()) { // of several of one type the first counts
			if slices.Contains(e.Conditions, condition.Type) && condition.Status != "" {
				out[condition.Type] = string(condition.Status)
			}
		}
		return out
	}
}
