package kopf

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

// Conditions returns the conditions of Object: those in status.conditions, or where [WithConditionsIn] says. What is set there is written with all that the handlers change in
// the pass, in one write of the status; conditions of others that are written meanwhile stay what they
// are. Mistakes, such as a type that is no name, fail the handler for good. If the kind has no such conditions,
// they are lost, and the handler fails, too.
//
// A handler that returns a [conditions.Error] sets that condition, too.
func (r *Request[T]) Conditions() *conditions.Set {
	if r.conditions != nil && client.Object(r.Object) == r.conditionsOf {
		return r.conditions
	}
	var opts []conditions.Option
	if r.call != nil {
		opts = r.call.ConditionOptions
	}
	set, err := conditions.For(r.Object, opts...)
	if err != nil {
		r.errs = append(r.errs, Permanent(fmt.Errorf("the object cannot have conditions: %w (%s)", err, conditionsHint)))
		set, _ = conditions.For(&unstructured.Unstructured{Object: map[string]any{}})
	}
	r.conditions, r.conditionsOf = set, r.Object
	return set
}

// Flush writes what the handler has changed in the status of Object until now, its conditions included, instead of at the end
// of the pass: for handlers that work for long, and for daemons. It waits for the API server. The error is that of the write;
// what could not be written is still part of what is written at the end. A flushed field replaces the value that an earlier handler of the
// same reconcile has set and that is not written yet. In OnEvent and IndexBy, where nothing is written at all, it is an error.
func (r *Request[T]) Flush(ctx context.Context) error {
	if r.Reason == ReasonEvent || r.Reason == ReasonIndex {
		return fmt.Errorf("Flush: nothing is written of what functions for OnEvent and IndexBy change: use a client, or another handler (its reason is %q)", r.Reason)
	}
	if r.call == nil || r.call.Flush == nil {
		return nil // a test of the handler: there is nowhere to write to
	}
	r.call.Object = r.Object // the handler may have replaced the pointer
	err := r.call.Flush(ctx)
	if err == nil && r.conditions != nil {
		r.conditions.Rebase() // back again is another transition now
	}
	return err
}

// applyConditions takes in what the handler has said by its error, and by mistakes.
func (r *Request[T]) applyConditions(err error) {
	if len(conditions.FindErrors(err)) > 0 {
		r.Conditions().SetFromError(err)
	}
	if r.conditions != nil {
		if err := r.conditions.Err(); err != nil {
			r.errs = append(r.errs, Permanent(err))
		}
	}
}

// WithConditions declares conditions of the kind: each object has them from the first visit on, Unknown until
// somebody says more. If "Ready" is among them beside others, it is a root that sums these up: it is True when all of
// them are, and otherwise tells the first reason why not; see [WithRootCondition] for another one. To set Ready yourself, do not
// declare it here.
func WithConditions(types ...string) ResourceOption {
	return func(o *resourceOptions) {
		if len(types) == 0 {
			o.errs = append(o.errs, errors.New("WithConditions names none: name some, such as \"Ready\", or leave it out"))
		}
		for i, kind := range types {
			if err := conditions.CheckType(kind); err != nil {
				o.errs = append(o.errs, fmt.Errorf("WithConditions: %w", err))
			}
			if slices.Contains(types[:i], kind) {
				o.errs = append(o.errs, fmt.Errorf("WithConditions names %q twice: leave out one", kind))
			}
		}
		o.conditionTypes = types
	}
}

// WithConditionsIn says where the conditions of the kind are, and what they look like, if that is not a list of the usual ones in status.conditions: by
// [conditions.At], [conditions.AsMap] or [conditions.Using]. It holds for all that the operator does with conditions. What an adapter
// changes outside of the status is a change of the object, and not part of [Request.Flush].
func WithConditionsIn(places ...conditions.Option) ResourceOption {
	return func(o *resourceOptions) {
		if len(places) == 0 || slices.ContainsFunc(places, func(place conditions.Option) bool { return place == nil }) {
			o.errs = append(o.errs, errors.New("WithConditionsIn says nothing, or nil: name a place, such as conditions.At(\"status.health\"), or leave it out"))
			return
		}
		o.conditionPlaces = append(o.conditionPlaces, places...)
	}
}

// conditionsHint is how [conditions.At] and the others are given in handlers.
const conditionsHint = "in handlers: by the option WithConditionsIn of For"

// WithRootCondition says which condition sums up others, and which: also those of which False is good.
// Default: see [WithConditions].
func WithRootCondition(root conditions.Root) ResourceOption {
	return func(o *resourceOptions) {
		if len(root.Of)+len(root.Not) == 0 {
			o.errs = append(o.errs, errors.New("WithRootCondition sums up nothing: name conditions in Of or Not, or leave it out"))
		}
		o.rootCondition = &root
	}
}

const ready = "Ready"

// summary is the root of the declared conditions; nil if there is none.
func (o *resourceOptions) effectiveRoot() *conditions.Root {
	if o.rootCondition != nil {
		return o.rootCondition
	}
	if !slices.Contains(o.conditionTypes, ready) || len(o.conditionTypes) == 1 {
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(o.conditionTypes), func(kind string) bool { return kind == ready })
	return &conditions.Root{Type: ready, Of: others}
}

// ReportCondition has a condition say how far the handler is: Unknown with the reason Running before it is
// done, False with Retrying and the error while it is tried again, True with Succeeded, or False with Failed and the
// error. If the handler sets the condition itself, that is what it says until it is called again.
func ReportCondition(conditionType string) HandlerOption {
	return func(d *declaration) {
		d.requireKind("ReportCondition", causeHandler, reconcileHandler)
		if err := conditions.CheckType(conditionType); err != nil {
			d.addErrorf("ReportCondition: %w", err)
		}
		d.Reports = conditionType
	}
}

// WhenCondition calls the handler only for objects with a condition of this status; one that is not there is
// Unknown. It is a filter like [Label]: it says whose business the object is. To be called when a condition changes,
// see [Resource.OnCondition].
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
			d.addErrorf("WhenCondition: %q is no status: use True, False or Unknown of metav1", status)
		}
		d.Handler.When = append(d.Handler.When, func(call *engine.Call) bool {
			return conditions.Is(call.Object, conditionType, status, call.ConditionOptions...)
		})
	}
}

// OnCondition adds a handler for transitions of a condition, whoever makes them: it is called when the status of the
// condition is another one than when the object was last handled, or when the object is new and has the condition. It works for
// kinds of others, too. [Request.Field] returns the status before and now, as texts; nil if the condition was or is
// not there. Its progress is kept like that of all handlers: no transition is lost, though one that was undone
// before it was handled is none.
//
// It makes what these conditions say part of the last handled configuration. Handlers of updates are not called for
// it.
func (r *Resource[T]) OnCondition(id, conditionType string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	h := r.newHandler("OnCondition", id, fn)
	h.AnyReason = true
	if err := conditions.CheckType(conditionType); err != nil {
		h.addErrorf("%w", err)
	}
	h.Criteria.Field = &match.FieldFilter{Path: []string{essence.ConditionsKey, conditionType}}
	return r.addHandler(h, opts)
}

// isForCondition reports whether the handler is one for a condition.
func (d *declaration) isForCondition() bool {
	return d.Criteria.Field != nil && d.Criteria.Field.Path[0] == essence.ConditionsKey
}

// transitions are the types of conditions for which there are handlers.
func (r *Resource[T]) watchedConditions() (types []string) {
	for _, h := range r.handlers {
		if h.isForCondition() && !slices.Contains(types, h.Criteria.Field.Path[1]) {
			types = append(types, h.Criteria.Field.Path[1])
		}
	}
	return types
}

// checkConditions tells if the kind cannot have the conditions that it is to have.
func (r *Resource[T]) checkConditions(obj client.Object) error {
	declares := len(r.conditionTypes) > 0 || r.rootCondition != nil
	reports := slices.ContainsFunc(r.handlers, func(h *typedHandler[T]) bool { return h.Reports != "" })
	if !declares && !reports {
		return nil
	}
	if _, err := conditions.For(obj, r.conditionPlaces...); err != nil {
		return fmt.Errorf("it is to have conditions, and cannot: %w (%s)", err, conditionsHint)
	}
	return nil
}
