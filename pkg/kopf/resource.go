package kopf

import (
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/loopguard"
)

// For declares a kind. The object is a pointer to an empty object whose type is registered in the manager's scheme, such as &v1.Database{}, or
// the result of [Unstructured] or [Metadata].
func For[T client.Object](obj T, opts ...ResourceOption) *Resource[T] {
	r := &Resource[T]{sharedResource: &sharedResource[T]{obj: obj, resourceOptions: resourceOptions{results: defaultResults, loopLimit: loopguard.DefaultLimit}}}
	for _, opt := range opts {
		if opt != nil {
			opt(&r.resourceOptions)
		}
	}
	return r
}

// OnCreate adds a cause handler for objects without a last-handled configuration. The operator has not handled these objects before.
//
// The operator stores the progress on each object under the id, which must be unique in the kind. A handler with a changed id is a new handler,
// unless it has [RenamedFrom].
//
// Equivalent in kopf: @kopf.on.create.
func (r *Resource[T]) OnCreate(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	return r.on("OnCreate", id, []Reason{ReasonCreate}, fn, opts)
}

// OnUpdate adds a cause handler for objects whose essence (the spec, labels, annotations and other fields outside of the status) differs from
// the last-handled configuration. With the option [Field], only that field counts. The field can be in the status.
//
// Equivalent in kopf: @kopf.on.update.
func (r *Resource[T]) OnUpdate(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	return r.on("OnUpdate", id, []Reason{ReasonUpdate}, fn, opts)
}

// OnCreateOrUpdate adds a cause handler for new objects and for changes, with one id: see [Resource.OnCreate] and [Resource.OnUpdate].
//
// Equivalent in kopf: @kopf.on.create and @kopf.on.update on one function.
func (r *Resource[T]) OnCreateOrUpdate(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	return r.on("OnCreateOrUpdate", id, []Reason{ReasonCreate, ReasonUpdate}, fn, opts)
}

// OnDelete adds a cause handler for objects that are being deleted. The finalizer of the operator blocks the deletion until the handler has
// finished, unless the handler is [Optional].
//
// Equivalent in kopf: @kopf.on.delete.
func (r *Resource[T]) OnDelete(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	return r.on("OnDelete", id, []Reason{ReasonDelete}, fn, opts)
}

// OnResume adds a cause handler for objects that an earlier process has handled. Each process calls it once for each of these objects, and
// retries it after errors. Without [EvenIfDeleted], it ignores objects that are being deleted.
//
// Equivalent in kopf: @kopf.on.resume.
func (r *Resource[T]) OnResume(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	return r.on("OnResume", id, []Reason{ReasonResume}, fn, opts)
}

// On adds a cause handler for several reasons, for example [ReasonCreate] and [ReasonResume], with one id. For creations and updates, see [Resource.OnCreateOrUpdate].
//
// Equivalent in kopf: several decorators on one function.
func (r *Resource[T]) On(id string, reasons []Reason, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	return r.on("On", id, reasons, fn, opts)
}

// OnField adds a cause handler for changes to one field. The operator calls the handler when the field was added, changed or removed since the
// last-handled configuration, and for a new object with the field. The deletion of the object is not a change of the field. The field can be
// anywhere in the object. The path has the syntax of [Field]. Request.Diff and [Request.Field] are relative to the field. If the field is in the
// status, the operator calls the handler even after the handler has changed the field itself.
//
// The progress and the result of the handler are stored under "<id>/<path>", as in kopf.
//
// Equivalent in kopf: @kopf.on.field.
func (r *Resource[T]) OnField(id, path string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	h := r.newHandler("OnField", id, fn)
	h.AnyReason = true
	return r.addHandler(h, append([]HandlerOption{Field(path)}, opts...))
}

// OnEvent adds an event handler. The operator calls it for each observed state of each object, in order, before all other handlers except
// index functions (see [IndexBy]). Request.Event is the type of the event. For a deleted object, Request.Object is the last known state. Event
// handlers have no progress and need no finalizer. By default, the operator drops their changes of Request.Object and their results (see
// [WriteChanges]), and logs their errors without a retry (see [Retries]).
//
// Equivalent in kopf: @kopf.on.event.
func (r *Resource[T]) OnEvent(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	h := r.newHandler("OnEvent", id, fn)
	h.handlerKind = eventHandler
	return r.addHandler(h, opts)
}

// OnReconcile adds a reconcile handler, which makes the actual state match the desired state, as a reconciler of controller-runtime does. The
// operator calls the handler for each object after the start of the operator, after changes of the object, and after the [Interval] and [Request.RequeueAfter]. It also calls
// the handler after changes of related objects (see [Resource.Owns], [Resource.Watches] and [Request.Track]), and after a resync of the cache. Changes that
// handlers make to Request.Object do not trigger the handler.
//
// A change calls the handler at once, even if it waits after an error: the delays of [Temporary] and [Backoff] are only for calls without a change. By default, the handler
// is not called for objects that are being deleted: see [EvenIfDeleted].
//
// Reconcile handlers have no progress on the object. After an error, the operator calls the handler again with a backoff, by default
// from 5 milliseconds to 1000 seconds, as controller-runtime does. For several steps, see [After].
func (r *Resource[T]) OnReconcile(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	h := r.newHandler("OnReconcile", id, fn)
	h.handlerKind = reconcileHandler
	h.CalledAfterDeletion = fn != nil && wrapsReconciler(fn)
	h.SkipsDeletion = !h.CalledAfterDeletion
	return r.addHandler(h, opts)
}

// When returns a view of the resource with a filter. Handlers that are added to the view belong to the resource, and match only if the function
// returns true. Pass the resource or any of its views to [New].
//
// The operator calls the function in each reconcile. It must return quickly and have no side effects, and it should depend on the object and
// not on the cause. If it panics, the handler does not match.
//
// Equivalent in kopf: when=.
func (r *Resource[T]) When(match func(*Request[T]) bool) *Resource[T] {
	if match == nil {
		r.errs = append(r.errs, fmt.Errorf("When(nil): pass a function or remove the call"))
		return r
	}
	return &Resource[T]{sharedResource: r.sharedResource, when: append(slices.Clone(r.when), match), middleware: r.middleware}
}

// Use adds middleware, for example for tracing or locking. The middleware wraps the handlers that are added to this view afterwards, except
// sub-handlers, index functions and admission handlers. The first middleware is the outermost. Use returns the same view.
func (r *Resource[T]) Use(mw ...Middleware[T]) *Resource[T] {
	if slices.ContainsFunc(mw, func(m Middleware[T]) bool { return m == nil }) {
		r.errs = append(r.errs, fmt.Errorf("Use(nil): the middleware is nil: remove it"))
		return r
	}
	r.middleware = append(slices.Clone(r.middleware), mw...)
	return r
}

func (r *Resource[T]) on(method, id string, reasons []Reason, fn Handler[T], opts []HandlerOption) *Resource[T] {
	h := r.newHandler(method, id, fn)
	if len(reasons) == 0 {
		h.addErrorf("the reasons are empty: pass at least one, such as ReasonCreate")
	}
	for _, reason := range reasons {
		if !slices.Contains(causeReasons, reason) {
			h.addErrorf("invalid reason %q: use one of %q", reason, causeReasons)
		}
		h.Reasons = append(h.Reasons, string(reason))
	}
	return r.addHandler(h, opts)
}
