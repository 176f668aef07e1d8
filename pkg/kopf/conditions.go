package kopf

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

// Flush immediately writes the handler's changes to the status of Object, including conditions, instead of at the end of the reconcile. Use
// it in long-running handlers and in daemons. It blocks until the API server has answered. If the write fails, Flush returns the error, and
// the operator tries again at the end of the reconcile. A flushed field overwrites the unwritten value of an earlier handler in the same
// reconcile. In OnEvent and IndexBy functions, Flush returns an error, because the state they see may be old. If the object no longer
// exists, or in a test without an operator, Flush does nothing.
func (r *Request[T]) Flush(ctx context.Context) error {
	if r.Reason == ReasonEvent || r.Reason == ReasonIndex {
		return fmt.Errorf("Flush: OnEvent and IndexBy functions cannot write during a call (reason %q): use a client or another kind of handler", r.Reason)
	}
	if r.call == nil || r.call.Flush == nil {
		return nil // a test has created the request, or the object no longer exists
	}
	r.call.Object = r.Object // the handler may have replaced the pointer
	err := r.call.Flush(ctx)
	if err == nil && r.conditions != nil {
		r.conditions.Rebase() // the written conditions are the base for the next transitions
	}
	return err
}

// WithConditions declares the kind's conditions. The first reconcile of an object adds the missing ones with the status Unknown. If you
// declare "Ready" together with others, the operator computes it as their summary (see [conditions.Set.Summarize]), so handlers must not
// set it. Use [WithRootCondition] for a different summary.
func WithConditions(types ...string) ResourceOption {
	return func(o *resourceOptions) {
		if len(types) == 0 {
			o.errs = append(o.errs, errors.New("WithConditions has no types: list some, such as \"Ready\", or remove the option"))
		}
		for i, conditionType := range types {
			if err := conditions.CheckType(conditionType); err != nil {
				o.errs = append(o.errs, fmt.Errorf("WithConditions: %w", err))
			}
			if slices.Contains(types[:i], conditionType) {
				o.errs = append(o.errs, fmt.Errorf("WithConditions contains %q twice: remove one", conditionType))
			}
		}
		o.conditionTypes = types
	}
}

// WithConditionsIn sets where and in which form the kind stores its conditions: [conditions.At], [conditions.AsMap] or [conditions.Using].
// This applies to all conditions that handlers and the operator read or set. [Request.Flush] doesn't write conditions outside of the
// status. Default: a list of [metav1.Condition] in status.conditions.
func WithConditionsIn(places ...conditions.Option) ResourceOption {
	return func(o *resourceOptions) {
		if len(places) == 0 || slices.ContainsFunc(places, func(place conditions.Option) bool { return place == nil }) {
			o.errs = append(o.errs, errors.New("WithConditionsIn has no options, or a nil one: pass one such as conditions.At(\"status.health\"), or remove it"))
			return
		}
		o.conditionOptions = append(o.conditionOptions, places...)
	}
}

// WithRootCondition sets the condition that summarizes other conditions. It also supports conditions whose healthy status is False.
// Default: see [WithConditions].
func WithRootCondition(root conditions.Root) ResourceOption {
	return func(o *resourceOptions) {
		if len(root.Of)+len(root.Not) == 0 {
			o.errs = append(o.errs, errors.New("WithRootCondition summarizes no conditions: set Of or Not, or remove the option"))
		}
		o.rootCondition = &root
	}
}

// WithPanicCondition sets the type of a condition that reports panics of handlers, such as "Degraded". It is True with the reason
// HandlerPanicked while one of the object's cause handlers, sub-handlers, reconcile handlers, daemons or timers has panicked and hasn't
// succeeded since. The message then has a line for each of these handlers, up to ten, with the first line of the panic. Otherwise, the
// condition is False with the reason AsExpected. A daemon counts as recovered once it has run for a minute after the panic, and a cause
// handler once all handlers of a later cause have succeeded. The condition survives restarts of the operator. Default: no condition.
//
// Don't declare the type with [WithConditions]. If a panic should make the object unready, set Not of [WithRootCondition].
func WithPanicCondition(conditionType string) ResourceOption {
	return func(o *resourceOptions) {
		if err := conditions.CheckType(conditionType); err != nil {
			o.errs = append(o.errs, fmt.Errorf("WithPanicCondition: %w", err))
		}
		o.panicCondition = conditionType
	}
}

const readyCondition = "Ready"

// effectiveRoot returns the condition of WithRootCondition. By default, this is Ready if it is declared together with other conditions, and
// nil otherwise.
func (o *resourceOptions) effectiveRoot() *conditions.Root {
	if o.rootCondition != nil {
		return o.rootCondition
	}
	if !slices.Contains(o.conditionTypes, readyCondition) || len(o.conditionTypes) == 1 {
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(o.conditionTypes), func(conditionType string) bool { return conditionType == readyCondition })
	return &conditions.Root{Type: readyCondition, Of: others}
}

// ReportCondition makes the operator report the handler's state in a condition:
//
//   - Unknown with the reason Running until the first attempt has finished
//   - False with the reason Retrying and the error while the handler is retried
//   - True with the reason Succeeded after it has succeeded
//   - False with the reason Failed and the error after it has failed permanently
//
// If the handler sets the condition itself, its value stays until the next attempt.
func ReportCondition(conditionType string) HandlerOption {
	return func(d *declaration) {
		d.requireKind("ReportCondition", causeHandler, reconcileHandler)
		if err := conditions.CheckType(conditionType); err != nil {
			d.addErrorf("ReportCondition: %w", err)
		}
		d.ConditionType = conditionType
	}
}

// WhenCondition restricts the handler to objects whose condition has this status. A missing condition counts as Unknown. Like [Label], this
// is only a filter, so a change to the condition doesn't trigger the handler. To call a handler when the condition changes, use
// [Resource.OnCondition].
func WhenCondition(conditionType string, status metav1.ConditionStatus) HandlerOption {
	return func(d *declaration) {
		d.requireKind("WhenCondition", causeHandler, eventHandler, reconcileHandler, daemonHandler, timerHandler, indexHandler, subHandler)
		if before, ok := d.requiredConditions[conditionType]; ok && before != status {
			d.addErrorf("WhenCondition can never match: %s cannot be both %s and %s", conditionType, before, status)
		}
		if d.requiredConditions == nil {
			d.requiredConditions = map[string]metav1.ConditionStatus{}
		}
		d.requiredConditions[conditionType] = status
		if err := conditions.CheckType(conditionType); err != nil {
			d.addErrorf("WhenCondition: %w", err)
		}
		if !slices.Contains([]metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}, status) {
			d.addErrorf("WhenCondition: invalid status %q: use metav1.ConditionTrue, ConditionFalse or ConditionUnknown", status)
		}
		d.Handler.When = append(d.Handler.When, func(call *invoke.Request) bool {
			return conditions.Is(call.Object, conditionType, status, call.ConditionOptions...)
		})
	}
}

// OnCondition adds a cause handler for transitions of a condition, no matter which client makes them. It is called when the condition's
// status differs from the one in the last-handled configuration, or when a new object has the condition. This even works for kinds of other
// operators. [Request.Field] returns the old and the new status as strings, or nil for a missing condition. Since the status is stored,
// transitions that happen while the operator isn't running are handled too, but not those that are undone before the operator sees them.
//
// The condition's status becomes part of the last-handled configuration, but its transitions don't trigger update handlers.
func (r *Resource[T]) OnCondition(id, conditionType string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	h := r.newHandler("OnCondition", id, fn)
	h.AnyReason = true
	if err := conditions.CheckType(conditionType); err != nil {
		h.addErrorf("%w", err)
	}
	h.Criteria.Field = &match.FieldFilter{Path: []string{essence.ConditionsKey, conditionType}}
	return r.addHandler(h, opts)
}

// watchedConditions returns the condition types that have an OnCondition handler.
func (r *Resource[T]) watchedConditions() (types []string) {
	for _, h := range r.handlers {
		if h.isForCondition() && !slices.Contains(types, h.Criteria.Field.Path[1]) {
			types = append(types, h.Criteria.Field.Path[1])
		}
	}
	return types
}

// checkConditions returns an error if the kind has no field for its conditions, or if the condition of WithPanicCondition is already used
// for something else.
func (r *Resource[T]) checkConditions(obj client.Object) error {
	if r.panicCondition != "" && slices.Contains(r.conditionTypes, r.panicCondition) {
		return fmt.Errorf("WithPanicCondition: %s is also declared with WithConditions: remove it from WithConditions", r.panicCondition)
	}
	for _, h := range r.handlers {
		if r.panicCondition != "" && h.ConditionType == r.panicCondition {
			return fmt.Errorf("WithPanicCondition: the handler %q also reports the condition %s: choose another type", h.fullID(), r.panicCondition)
		}
	}
	_, err := conditions.For(obj, r.conditionOptions...)
	declares := len(r.conditionTypes) > 0 || r.rootCondition != nil || r.panicCondition != ""
	reports := slices.ContainsFunc(r.handlers, func(h *typedHandler[T]) bool { return h.ConditionType != "" })
	reads := slices.ContainsFunc(r.declarations(), func(d *declaration) bool { return d.isForCondition() || len(d.requiredConditions) > 0 })
	switch {
	case err == nil:
		return nil
	case declares || reports:
		return fmt.Errorf("the conditions cannot be stored: %w (%s)", err, kinds.ConditionsHint)
	case reads:
		return fmt.Errorf("OnCondition and WhenCondition can never match: %w (%s)", err, kinds.ConditionsHint)
	}
	return nil
}
