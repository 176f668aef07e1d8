package kopf

import (
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/loopguard"
)

// For declares a kind. Pass a pointer to an empty object whose type is registered in the manager's scheme, such as &v1.Database{}, or the
// result of [Unstructured] or [Metadata].
func For[T client.Object](obj T, opts ...ResourceOption) *Resource[T] {
	r := &Resource[T]{sharedResource: &sharedResource[T]{obj: obj, resourceOptions: resourceOptions{results: defaultResults, loopLimit: loopguard.DefaultLimit}}}
	for _, opt := range opts {
		if opt != nil {
			opt(&r.resourceOptions)
		}
	}
	return r
}

// OnCreate adds a cause handler for objects that the operator hasn't handled before, so they have no last-handled configuration.
//
// The id must be unique in the kind, because the progress on each object is stored under it. If you change the id, the operator treats the
// handler as a new one, unless it has [RenamedFrom].
//
// Equivalent in kopf: @kopf.on.create.
func (r *Resource[T]) OnCreate(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	return r.on("OnCreate", id, []Reason{ReasonCreate}, fn, opts)
}

// OnUpdate adds a cause handler for objects whose essence (the spec, labels, annotations and other fields outside of the status) differs
// from the last-handled configuration. With the option [Field], only that field counts, and it can even be in the status.
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

// OnDelete adds a cause handler for objects that are being deleted. The operator's finalizer blocks the deletion until the handler has
// finished, unless the handler is [Optional].
//
// Equivalent in kopf: @kopf.on.delete.
func (r *Resource[T]) OnDelete(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	return r.on("OnDelete", id, []Reason{ReasonDelete}, fn, opts)
}

// OnResume adds a cause handler for objects that an earlier process has handled. Each process calls it once for each of these objects, and
// retries it after errors. It skips objects that are being deleted unless it has [EvenIfDeleted].
//
// Equivalent in kopf: @kopf.on.resume.
func (r *Resource[T]) OnResume(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	return r.on("OnResume", id, []Reason{ReasonResume}, fn, opts)
}

// On adds a cause handler with one id for several reasons, for example [ReasonCreate] and [ReasonResume]. For creations and updates, see
// [Resource.OnCreateOrUpdate].
//
// Equivalent in kopf: several decorators on one function.
func (r *Resource[T]) On(id string, reasons []Reason, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	return r.on("On", id, reasons, fn, opts)
}

// OnField adds a cause handler for changes to one field. It is called when the field was added, changed or removed since the last-handled
// configuration, and for new objects that have the field. Deleting the object doesn't count as a change of the field. The path has the
// syntax of [Field] and can point anywhere in the object. Request.Diff and [Request.Field] are relative to the field. If the field is in
// the status, the handler is called even after it has changed the field itself.
//
// The handler's progress and result are stored under "<id>/<path>", as in kopf.
//
// Equivalent in kopf: @kopf.on.field.
func (r *Resource[T]) OnField(id, path string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	h := r.newHandler("OnField", id, fn)
	h.AnyReason = true
	return r.addHandler(h, append([]HandlerOption{Field(path)}, opts...))
}

// OnEvent adds an event handler. It is called for each observed state of each object, in order, before all other handlers except index
// functions (see [IndexBy]). Request.Event is the event's type. For a deleted object, Request.Object is the last known state. Event
// handlers keep no progress and need no finalizer. By default, the operator drops their results and their changes to Request.Object (see
// [WriteChanges]), and logs their errors without retrying them (see [Retries]).
//
// Equivalent in kopf: @kopf.on.event.
func (r *Resource[T]) OnEvent(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	h := r.newHandler("OnEvent", id, fn)
	h.handlerKind = eventHandler
	return r.addHandler(h, opts)
}

// OnReconcile adds a reconcile handler, which makes the actual state match the desired state, like a controller-runtime reconciler. It is
// called for each object when the operator starts and when the object changes, and again after the [Interval] or [Request.RequeueAfter].
// Changes to related objects (see [Resource.Owns], [Resource.Watches] and [Request.Track]) and resyncs of the cache trigger it too. Changes
// that handlers make to Request.Object don't.
//
// A change triggers the handler at once, even while it waits after an error, because [Temporary] and [Backoff] only delay calls without a
// change. By default, the handler isn't called for objects that are being deleted: see [EvenIfDeleted].
//
// Reconcile handlers keep no progress on the object. After an error, the operator retries them with a backoff, by default from 5
// milliseconds to 1000 seconds, as controller-runtime does. For several steps, see [After].
func (r *Resource[T]) OnReconcile(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	h := r.newHandler("OnReconcile", id, fn)
	h.handlerKind = reconcileHandler
	h.CalledAfterDeletion = fn != nil && wrapsReconciler(fn)
	h.SkipsDeletion = !h.CalledAfterDeletion
	return r.addHandler(h, opts)
}

// When returns a view of the resource with a filter. Handlers added to the view belong to the resource, but match only if the function
// returns true. You can pass the resource or any of its views to [New].
//
// The function is called in each reconcile, so it must be fast and free of side effects. It should depend on the object, not on the cause.
// If it panics, the handler doesn't match.
//
// Equivalent in kopf: when=.
func (r *Resource[T]) When(match func(*Request[T]) bool) *Resource[T] {
	if match == nil {
		r.errs = append(r.errs, fmt.Errorf("When(nil): pass a function or remove the call"))
		return r
	}
	return &Resource[T]{sharedResource: r.sharedResource, when: append(slices.Clone(r.when), match), middleware: r.middleware}
}

// Use adds middleware, for example for tracing or locking. It wraps the handlers that are added to this view afterwards, except
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
