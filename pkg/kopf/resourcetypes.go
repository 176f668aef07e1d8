package kopf

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// A resource is a [Resource] for any type of object.
type resource interface {
	// kind converts the resource for the engine. It joins all errors of the declaration.
	kind(scheme *runtime.Scheme, store progress.Store, c client.Client) (engine.Kind, error)
	options() *resourceOptions
	relatedKinds() []kinds.Related
	eventSelections() []*kinds.EventSelection
	triggerSources() []source.Source
	buildHooks(o *Operator) []webhooks.Hook
	hasOnlyAdmission() bool
	hasAdmission() bool
	declarations() []*declaration
	handlersWithUncheckedFields() []*declaration
	identity() any // all views of a resource have the same identity
	controllerName(scheme *runtime.Scheme) string
}

func (r *Resource[T]) options() *resourceOptions { return &r.resourceOptions }

func (r *Resource[T]) relatedKinds() []kinds.Related { return r.related }

func (r *Resource[T]) eventSelections() []*kinds.EventSelection {
	return r.events
}

func (r *Resource[T]) triggerSources() []source.Source { return r.triggers }

func (r *Resource[T]) identity() any { return r.sharedResource }

func (r *Resource[T]) hasAdmission() bool { return len(r.hooks) > 0 }

func (r *Resource[T]) controllerName(scheme *runtime.Scheme) string {
	if r.name != "" {
		return r.name
	}
	gvk, err := apiutil.GVKForObject(r.obj, scheme)
	if err != nil {
		return ""
	}
	return strings.ToLower(gvk.Kind)
}

func isMetadata(obj client.Object) bool {
	_, is := obj.(*metav1.PartialObjectMetadata)
	return is
}

// isNil reports whether the object is nil or a nil pointer.
func isNil(obj client.Object) bool {
	v := reflect.ValueOf(obj)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// orNoKind replaces a nil error with one about an object without a kind.
func orNoKind(err error) error {
	if err == nil {
		return errors.New("the object has no kind")
	}
	return err
}

func gvkOf(obj client.Object, scheme *runtime.Scheme) (schema.GroupVersionKind, error) {
	if isNil(obj) {
		return schema.GroupVersionKind{}, nil
	}
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil || gvk.Empty() {
		return gvk, orNoKind(err)
	}
	return gvk, nil
}

// hasOnlyAdmission reports whether the resource only has admission handlers, so its objects need no watch.
func (r *Resource[T]) hasOnlyAdmission() bool {
	return len(r.hooks) > 0 && len(r.handlers)+len(r.indexes) == 0
}

// A hookBuilder builds an admission handler. [New] calls it, because the lookup of memos needs the operator.
type hookBuilder func(memoLookup) webhooks.Hook

// memoLookup returns the memos of an object.
type memoLookup func(types.UID) *objectstate.Memos

// A Resource is a kind with its handlers. Create it with [For], add handlers, and pass it as an [Option] to [New] or [SetupWithManager].
// Don't call its methods after the operator has started.
type Resource[T client.Object] struct {
	*sharedResource[T]
	when       []func(*Request[T]) bool // for handlers that are added to this view later
	middleware []Middleware[T]          // likewise
}

// A sharedResource is the part of a resource that all its views share.
type sharedResource[T client.Object] struct {
	obj      T
	handlers []*typedHandler[T]
	indexes  []typedIndex[T]
	related  []kinds.Related
	events   []*kinds.EventSelection // selected Events of OnEventAbout
	triggers []source.Source
	hooks    []hookBuilder
	resourceOptions
}

// A typedHandler is the declaration of a handler with its function and filters.
type typedHandler[T client.Object] struct {
	declaration
	fn   Handler[T]
	when []func(*Request[T]) bool
	// changed reports whether the value of an OnChange handler has changed. It is nil for other handlers.
	changed func(*Request[T]) bool
}

// resourceOptions contains the values that the options of For set.
type resourceOptions struct {
	name             string
	controller       controller.Options
	predicates       []predicate.Predicate
	selector         *client.ListOptions // nil for all objects
	results          string
	ownChanges       bool
	digestOnly       *bool // nil for the default
	loopLimit        int
	whenServed       bool
	conditionTypes   []string
	conditionOptions []conditions.Option
	rootCondition    *conditions.Root
	panicCondition   string
	errs             []error
}

func (r *Resource[T]) declarations() (all []*declaration) {
	for _, h := range r.handlers {
		all = append(all, &h.declaration)
	}
	for _, x := range r.indexes {
		all = append(all, &x.declaration)
	}
	return all
}

// handlersWithUncheckedFields returns the handlers with a field, except those of OnCondition. For a kind with a Go type, it returns nil,
// because their fields are checked with the declaration.
func (r *Resource[T]) handlersWithUncheckedFields() []*declaration {
	if validation.GoType(reflect.TypeOf(r.obj)) != nil {
		return nil
	}
	return slices.DeleteFunc(r.declarations(), func(d *declaration) bool { return d.Criteria.Field == nil || d.isForCondition() })
}

// A typedIndex is the declaration of an index function, with the index operations that the engine calls.
type typedIndex[T client.Object] struct {
	*typedHandler[T]
	index invoke.IndexHandler
}

func (x typedIndex[T]) register(kind *engine.Kind, handler *invoke.Handler) error {
	x.index.Handler = *handler
	return kind.Indexes.Add(x.id, x.id, &x.index)
}

func (r *Resource[T]) newHandler(method, id string, fn Handler[T]) *typedHandler[T] {
	h := &typedHandler[T]{declaration: declaration{id: id, method: method}, fn: fn, when: r.when}
	h.Criteria = match.Criteria{}
	if fn == nil {
		h.addErrorf("the handler is nil: pass a function")
		return h
	}
	for _, wrap := range slices.Backward(r.middleware) {
		if h.fn = wrap(h.fn); h.fn == nil {
			h.addErrorf("a middleware of Use has returned a nil handler: return a handler")
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

// A ResourceOption configures a [Resource]. Pass it to [For].
type ResourceOption func(*resourceOptions)

// Sub declares a sub-handler with the id "<handler>/<id>". It is called after this handler has returned nil, and has its own retries,
// progress and result. The declaring handler finishes when all its sub-handlers have succeeded or failed permanently. Until then, it is
// called again and again, but these attempts don't count for [Retries]. Its [Timeout] limits everything together: once it has passed, or if
// the handler fails for a different reason, the unfinished sub-handlers fail too.
//
// The handler must declare the same sub-handlers each time. If it finishes without declaring an unfinished one, the operator doesn't call
// that one again, and reports this in the log and in an Event. Sub-handlers can declare their own sub-handlers; apart from them, only cause
// handlers can.
//
// A sub-handler receives the same state and Diff as the declaring handler, and shares its [CancelOnDelete], [RetryOnRelatedChange],
// [RenamedFrom] and [StoreIn]. Its own options can be filters, [Retries], [Timeout], [AttemptTimeout], [Backoff], [BackoffFunc] and
// [ErrorMode]. With any other option, the declaring handler fails permanently.
//
// Equivalent in kopf: @kopf.subhandler, kopf.register.
func (r *Request[T]) Sub(id string, fn Handler[T], opts ...HandlerOption) {
	h := typedHandler[T]{declaration: declaration{id: id, method: "Sub", handlerKind: subHandler}, fn: fn}
	h.apply(opts)
	if id == "" {
		h.addErrorf("the id is empty: set one, because it is stored on the objects")
	}
	if fn == nil {
		h.addErrorf("the handler is nil: pass a function")
	}
	if r.call == nil {
		return // the request is from a test, so the sub-handler isn't called
	}
	if f := h.Criteria.Field; f != nil && len(f.From)+len(f.To) > 0 && !r.call.ReceivesDiff {
		h.addErrorf("From and To are only for sub-handlers of OnUpdate and OnField: remove them, because this handler has no old state")
	}
	if !Reason(r.call.Reason).isCause() {
		h.addErrorf("%s handlers cannot have sub-handlers, because they have no progress: use a cause handler", r.call.Reason)
	}
	for _, err := range h.errs {
		r.errs = append(r.errs, Permanent(fmt.Errorf("%s: %w", h.displayName(), err)))
	}
	handler := h.Handler
	handler.Do = fn.forEngine(r.Client, false)
	r.subHandlers = append(r.subHandlers, invoke.SubHandler{ID: r.call.ID + "/" + id, Handler: handler})
}
