package kopf

import (
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kopf-runtime/kopf-runtime/internal/match"
)

// A Resource is one kind of objects with its handlers. Make it with [For], add handlers to it, and
// give it to [New]: it is an [Option] of the operator.
type Resource[T client.Object] struct {
	obj      T
	handlers []handlerOf[T]
	resourceOptions
}

type handlerOf[T client.Object] struct {
	declaration
	fn Handler[T]
}

type resourceOptions struct {
	name        string
	concurrency int
	controller  controller.Options
	predicates  []predicate.Predicate
	results     string
	mistakes    []error
}

// For declares a kind by an object of it: a pointer to a Go type of the manager's scheme,
// [Unstructured] or [Metadata].
func For[T client.Object](obj T, opts ...ResourceOption) *Resource[T] {
	r := &Resource[T]{obj: obj, resourceOptions: resourceOptions{results: "status"}}
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
	return r.add("OnCreate", id, []Reason{ReasonCreate}, fn, opts)
}

// OnUpdate adds a handler for objects whose essence has changed since it was last handled: the labels,
// the annotations, the spec or any other stanza except the status. kopf: @kopf.on.update.
func (r *Resource[T]) OnUpdate(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	return r.add("OnUpdate", id, []Reason{ReasonUpdate}, fn, opts)
}

// OnDelete adds a handler for objects that are being deleted. They are held by the operator's
// finalizer until it is done, unless it is [Optional]. kopf: @kopf.on.delete.
func (r *Resource[T]) OnDelete(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	return r.add("OnDelete", id, []Reason{ReasonDelete}, fn, opts)
}

// OnResume adds a handler that is called once in the life of a process for each object that was
// handled by an earlier one; not for new objects. kopf: @kopf.on.resume.
func (r *Resource[T]) OnResume(id string, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	return r.add("OnResume", id, []Reason{ReasonResume}, fn, opts)
}

// On adds one handler, with one id and one progress, for several reasons: creation and resuming,
// say. kopf: several decorators on one function.
func (r *Resource[T]) On(id string, reasons []Reason, fn Handler[T], opts ...HandlerOption) *Resource[T] {
	return r.add("On", id, reasons, fn, opts)
}

func (r *Resource[T]) add(method, id string, reasons []Reason, fn Handler[T], opts []HandlerOption) *Resource[T] {
	h := handlerOf[T]{fn: fn, declaration: declaration{id: id, method: method}}
	if fn == nil {
		h.mistakef("the handler is nil: give it a function")
	}
	if len(reasons) == 0 {
		h.mistakef("it has no reasons: name at least one, such as ReasonCreate")
	}
	var words []string
	for _, reason := range reasons {
		if !slices.Contains(handled, reason) {
			h.mistakef("%q is no reason to call it for: use one of %q", reason, handled)
		}
		words = append(words, string(reason))
	}
	h.Criteria = match.Criteria{Reasons: words}
	for _, opt := range opts {
		if opt != nil {
			opt(&h.declaration)
		}
	}
	r.handlers = append(r.handlers, h)
	return r
}

var handled = []Reason{ReasonCreate, ReasonUpdate, ReasonDelete, ReasonResume}

// where names a handler in an error.
func (h handlerOf[T]) where() string { return fmt.Sprintf("%s(%q)", h.method, h.id) }
