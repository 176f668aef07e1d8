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
func (e *Engine) report(ctx context.Context, c *cycle) {
	if c.unreported || len(e.Declared) == 0 && e.Root == nil && !e.reporting(c) || c.gone || c.parting {
		return
	}
	if len(c.matching)+len(c.attended) == 0 && !c.leveled {
		return // the object is nobody's business
	}
	obj := c.object.DeepCopyObject().(client.Object)
	set, err := conditions.For(obj, append(e.conditionOptions(), conditions.Since(c.before))...)
	if err == nil {
		e.describe(c, set)
		err = set.Err()
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to report the conditions")
		return
	}
	if !set.Changed() {
		return
	}
	s := &share{report: true, base: c.current}
	changed, err := e.changes(ctx, c, "", obj)
	if err == nil && len(changed) > 0 {
		s.doc = c.fitted(changed)
		err = e.show(c, changed)
		c.shares = append(c.shares, s)
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
func (e *Engine) reporting(c *cycle) bool {
	return len(c.told) > 0 || slices.ContainsFunc(c.selection.Selected, func(id string) bool {
		handler, _ := e.Handlers.Get(id)
		return handler.ConditionType != ""
	})
}

func (e *Engine) describe(c *cycle, set *conditions.Set) {
	if !c.cause.Facts.Deleting {
		set.Declare(e.Declared...)
	}
	if c.cause.Reason.HasHandlers() {
		for _, id := range c.selection.Selected {
			handler, _ := e.Handlers.Get(id)
			if handler.ConditionType == "" || c.said(handler.ConditionType) {
				continue
			}
			record := c.state.Record(id)
			if slices.Contains(c.called, id) || !record.Success && record.Retries == 0 { // it waits, or was skipped permanently
				set.Set(conditionOf(handler.ConditionType, record))
			}
		}
	}
	for _, one := range c.told {
		if c.said(one.condition) {
			continue
		}
		if o := one.share.outcome; !o.Interrupted {
			record := progress.Record{Success: o.Success, Failure: o.Final && !o.Success}
			if o.Err != nil {
				record.Message = o.Err.Error()
			}
			set.Set(conditionOf(one.condition, record))
		}
	}
	e.describeOverlay(c, set)
	if e.Root != nil && !c.cause.Facts.Deleting {
		set.Summarize(*e.Root)
	}
}

// said reports whether a handler has set the condition itself in this pass: that is more than we know.
func (c *cycle) said(kind string) bool { return slices.Contains(c.explicit, kind) }

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
type told struct {
	condition string
	share     *share // which may be withheld
}

// listen takes note of the condition of a handler if that has set it itself: then it is not for us to say. A handler that was
// given up was not called, and has not been shown anything.
func (e *Engine) listen(c *cycle, before map[string]any, h invoke.Handler) {
	if h.ConditionType != "" && before != nil && !equality.Semantic.DeepEqual(e.conditionIn(before, h.ConditionType), e.conditionIn(c.current, h.ConditionType)) {
		c.explicit = append(c.explicit, h.ConditionType)
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
func (e *Engine) statuses() func(content map[string]any) map[string]any {
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
