package kopf

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

// A Resource is one kind of objects with its handlers. Make it with [For], add handlers to it, and
// give it to [New]: it is an [Option] of the operator.
type Resource[T client.Object] struct {
	*sharedResource[T]
	// What holds for the handlers that are added to this view.
	when []func(*Request[T]) bool
	use  []Middleware[T]
}

// declared is what all views of a resource share.
type sharedResource[T client.Object] struct {
	obj      T
	handlers []*typedHandler[T]
	indexes  []indexOf[T]
	owned    []ownedKind
	hooks    []hookBuilder
	resourceOptions
}

type typedHandler[T client.Object] struct {
	declaration
	fn   Handler[T]
	when []func(*Request[T]) bool
	// changed tells whether what has happened is a change for the handler; nil: any is.
	changed func(*Request[T]) bool
}

// A child is a kind of which objects are owned.
type ownedKind struct {
	obj        client.Object
	gvk        schema.GroupVersionKind // known after the validation
	predicates []predicate.Predicate
}

type resourceOptions struct {
	name            string
	concurrency     int
	controller      controller.Options
	predicates      []predicate.Predicate
	results         string
	ownChanges      bool
	conditionTypes  []string
	conditionPlaces []conditions.Option
	rootCondition   *conditions.Root
	errs            []error
}

// For declares a kind by an object of it: a pointer to a Go type of the manager's scheme,
// [Unstructured] or [Metadata].
func For[T client.Object](obj T, opts ...ResourceOption) *Resource[T] {
	r := &Resource[T]{sharedResource: &sharedResource[T]{obj: obj, resourceOptions: resourceOptions{results: defaultResults}}}
	for _, opt := range opts {
		if opt != nil {
			opt(&r.resourceOptions)
		}
	}
	return r
}

// OnCreate adds a handler for objects that were never handled. kopf: @kopf.on.create.
//
// The id names the handler on the objects; it must be unique in the kind, and changing it makes it
// another handler.
func (r *Resource[T]) OnCreate(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	return r.on("OnCreate", id, []Reason{ReasonCreate}, fn, opts)
}

// OnUpdate adds a handler for objects whose essence has changed since it was last handled: the labels,
// the annotations, the spec or any other stanza except the status. With [Field], only that field counts,
// whatever it is, and for a field of the status whoever changes it. kopf: @kopf.on.update.
func (r *Resource[T]) OnUpdate(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	return r.on("OnUpdate", id, []Reason{ReasonUpdate}, fn, opts)
}

// OnDelete adds a handler for objects that are being deleted. They are held by the operator's
// finalizer until it is done, unless it is [Optional]. kopf: @kopf.on.delete.
func (r *Resource[T]) OnDelete(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	return r.on("OnDelete", id, []Reason{ReasonDelete}, fn, opts)
}

// OnResume adds a handler that is called once in the life of a process for each object that was
// handled by an earlier one; not for new objects. kopf: @kopf.on.resume.
func (r *Resource[T]) OnResume(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	return r.on("OnResume", id, []Reason{ReasonResume}, fn, opts)
}

// On adds one handler, with one id and one progress, for several reasons: creation and resuming,
// say. kopf: several decorators on one function.
func (r *Resource[T]) On(id string, reasons []Reason, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	return r.on("On", id, reasons, fn, opts)
}

// OnField adds a handler for a change of one field, wherever in the object it is, and whatever has
// happened to the object: it comes with the object, is changed, or goes. Request.Diff and [Request.Field]
// are about the field. The path is dotted, as for [Field]. A change of a field of the status counts also if handlers, daemons or timers of
// this operator make it. kopf: @kopf.on.field.
//
// The handler's progress, and its result, are kept under "<id>/<path>", as in kopf.
func (r *Resource[T]) OnField(id, path string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	h := r.newHandler("OnField", id, fn)
	h.AnyReason = true
	return r.addHandler(h, append([]HandlerOption{Field(path)}, opts...))
}

// OnEvent adds a handler that only watches: it is called for every state of the objects that is observed,
// with how it came in Request.Event, deleted objects with their last state; in order, before all other
// handlers. It leaves no trace: what it changes in Request.Object is not written, there are no results,
// no finalizer and no progress, and an error is logged and forgotten. kopf: @kopf.on.event.
func (r *Resource[T]) OnEvent(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	h := r.newHandler("OnEvent", id, fn)
	h.handlerKind = eventHandler
	return r.addHandler(h, opts)
}

// OnReconcile adds a level-triggered handler: it is called when the object, or one that it owns (see
// [Resource.Owns]), has changed, when the operator has started, and after its [Interval]; it is to make
// things as they should be, whatever has happened. Objects that are being deleted are no exception, as long
// as they exist. It has no progress on the object: each process calls it anew. Its own changes of Request.Object do not call it again. After an error it is called again with a
// backoff, by default from 100 milliseconds to 2 minutes.
func (r *Resource[T]) OnReconcile(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	h := r.newHandler("OnReconcile", id, fn)
	h.handlerKind = reconcileHandler
	return r.addHandler(h, opts)
}

// Owns calls the [Resource.OnReconcile] handlers of an object also when an object that it owns has changed
// or is gone: one with an owner reference to it. With predicates, only for events that pass them all.
func (r *Resource[T]) Owns(obj client.Object, predicates ...predicate.Predicate) *Resource[T] {
	r.owned = append(r.owned, ownedKind{obj: obj, predicates: predicates})
	return r
}

// When returns a view of the resource: handlers that are added to it also need the match, which must be
// quick and without effects; one that panics does not match. It is asked in every pass, and says whose
// business the object is: it should look at the object, and not at what has happened to it. What is added to the view belongs to the
// resource: it need not be given to [New], too. kopf: when=.
func (r *Resource[T]) When(match func(*Request[T]) bool) *Resource[T] {
	if match == nil {
		r.errs = append(r.errs, fmt.Errorf("When(nil): give it a function, or leave it out"))
		return r
	}
	return &Resource[T]{sharedResource: r.sharedResource, when: append(slices.Clone(r.when), match), use: r.use}
}

// Use puts functions around the handlers that are added to this view after it: tracing, a limit, a lock.
// The first one given is the outermost. Sub-handlers and indexes are not wrapped.
func (r *Resource[T]) Use(mw ...Middleware[T]) *Resource[T] {
	if slices.ContainsFunc(mw, func(m Middleware[T]) bool { return m == nil }) {
		r.errs = append(r.errs, fmt.Errorf("Use has a nil middleware: leave it out"))
		return r
	}
	r.use = append(slices.Clone(r.use), mw...)
	return r
}

func (r *Resource[T]) on(method, id string, reasons []Reason, fn Handler[T], opts []HandlerOption) *Resource[T] {
	h := r.newHandler(method, id, fn)
	if len(reasons) == 0 {
		h.addErrorf("it has no reasons: name at least one, such as ReasonCreate")
	}
	for _, reason := range reasons {
		if !slices.Contains(causeReasons, reason) {
			h.addErrorf("%q is no reason to call it for: use one of %q", reason, causeReasons)
		}
		h.Reasons = append(h.Reasons, string(reason))
	}
	return r.addHandler(h, opts)
}

var causeReasons = []Reason{ReasonCreate, ReasonUpdate, ReasonDelete, ReasonResume}

// handler begins the declaration of a handler of this view.
func (r *Resource[T]) newHandler(method, id string, fn Handler[T]) *typedHandler[T] {
	h := &typedHandler[T]{declaration: declaration{id: id, method: method}, fn: fn, when: r.when}
	h.Criteria = match.Criteria{}
	if fn == nil {
		h.addErrorf("the handler is nil: give it a function")
		return h
	}
	for _, wrap := range slices.Backward(r.use) {
		if h.fn = wrap(h.fn); h.fn == nil {
			h.addErrorf("a middleware has made a nil handler of it: have it return one")
			return h
		}
	}
	return h
}

func (r *Resource[T]) addHandler(h *typedHandler[T], opts []HandlerOption) *Resource[T] {
	h.apply(opts)
	r.handlers = append(r.handlers, h)
	return r
}
