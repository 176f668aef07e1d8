package kopf

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kopf-runtime/kopf-runtime/internal/declare"
	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func (r *Resource[T]) kind(scheme *runtime.Scheme, store progress.Store, c client.Client) (engine.Kind, error) {
	if isNil(r.obj) {
		return engine.Kind{}, errors.New("For(nil): pass an empty object of the kind, such as &v1.Database{}")
	}
	gvk, err := apiutil.GVKForObject(r.obj, scheme)
	if err != nil || gvk.Empty() {
		return engine.Kind{}, fmt.Errorf("%T: the kind is not registered in the manager's scheme: "+
			"call AddToScheme of its API package, or set apiVersion and kind of an unstructured object: %w", r.obj, orNoKind(err))
	}
	kind := engine.Kind{
		GVK: gvk, Results: strings.Split(r.results, "."),
		New: func() client.Object {
			obj := reflect.New(reflect.TypeOf(r.obj).Elem()).Interface().(client.Object)
			obj.GetObjectKind().SetGroupVersionKind(gvk)
			return obj
		},
	}
	kind.Name = r.controllerName(scheme)
	errs := append(slices.Clone(r.errs), r.register(&kind, scheme, store, c)...)
	for i, err := range errs {
		errs[i] = fmt.Errorf("%s: %w", gvk.Kind, err)
	}
	return kind, errors.Join(errs...)
}

// register adds the handlers to the engine's kind and returns all errors of the declaration.
func (r *Resource[T]) register(kind *engine.Kind, scheme *runtime.Scheme, store progress.Store, c client.Client) (errs []error) {
	if len(r.handlers)+len(r.indexes)+len(r.hooks) == 0 {
		errs = append(errs, errNoHandlers)
	}
	ids := map[string]handlerKind{}
	addErrors := func(h *typedHandler[T], found ...error) {
		for _, err := range found {
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", h.displayName(), err))
			}
		}
	}
	all := slices.Clone(r.handlers)
	for _, x := range r.indexes {
		all = append(all, x.typedHandler)
	}
	for _, h := range all {
		addErrors(h, h.errs...)
		addErrors(h, h.check(r.obj, scheme)...)
		other, hasOther := ids[h.fullID()]
		switch {
		case h.id == "":
			addErrors(h, errors.New("the id is empty: set one, because it is stored on the objects"))
		case strings.TrimSpace(h.id) != h.id:
			addErrors(h, fmt.Errorf("the id %q begins or ends with a space: remove it", h.id))
		case hasOther: // ids are unique among all kinds of handlers
			advice := "rename one of the handlers"
			if other == causeHandler && h.handlerKind == causeHandler {
				advice += ", or use On for one function with several reasons"
			}
			addErrors(h, fmt.Errorf("the id %q is used twice: %s", h.fullID(), advice))
		case h.handlerKind == causeHandler:
			addErrors(h, addCauseHandler(kind, store, h, c))
		}
		ids[h.fullID()] = h.handlerKind
	}
	for _, h := range r.handlers {
		h.addTo(kind, h.forEngine(c))
	}
	for _, x := range r.indexes {
		_ = x.register(kind, x.forEngine(c))
	}
	kind.Fields, kind.Conditions = r.essenceFields(), r.watchedConditions()
	kind.Watched, kind.OwnChanges, kind.LoopLimit = r.watchedFields(), r.ownChanges, r.loopLimit
	kind.ConditionOptions, kind.RateLimiter = r.conditionOptions, r.controller.RateLimiter
	kind.Only = r.selector
	kind.DigestOnly = kind.IsSecret() && !isMetadata(r.obj)
	if r.digestOnly != nil {
		kind.DigestOnly = *r.digestOnly
	}
	kind.DeclaredConditions, kind.Root, kind.PanicCondition = r.conditionTypes, r.effectiveRoot(), r.panicCondition
	if err := r.checkConditions(kind.New()); err != nil {
		errs = append(errs, err)
	}
	if r.hasOnlyAdmission() {
		errs = append(errs, r.checkUnusedOptions()...)
	}
	errs = append(errs, r.checkRelated(scheme)...)
	return slices.Concat(errs, declare.CheckAfter(kind), declare.CheckRevisions(kind), declare.CheckEarlierIDs(kind))
}

// addCauseHandler adds a cause handler to the kind. It returns an error if the store rejects the id, or if two ids have the same key.
func addCauseHandler[T client.Object](kind *engine.Kind, store progress.Store, h *typedHandler[T], c client.Client) error {
	id := h.fullID()
	key := id
	if h.Store != nil {
		store = h.Store
	}
	if checker, ok := store.(progress.KeyChecker); ok {
		var err error
		if key, err = checker.Key(id); err != nil {
			return err
		}
	}
	return kind.Handlers.Add(id, key, h.forEngine(c))
}

func (h *typedHandler[T]) forEngine(c client.Client) *invoke.Handler {
	handler := new(h.Handler)
	handler.Do, handler.Warnings = h.fn.forEngine(c, h.handlerKind == daemonHandler || h.handlerKind == timerHandler), &invoke.Warnings{}
	if h.events != nil {
		handler.ClusterEvents = h.events.String()
	}
	for _, predicate := range h.when {
		handler.When = append(handler.When, adaptPredicate("When", predicate, c))
	}
	if h.changed != nil {
		handler.Changed = adaptPredicate("OnChange", h.changed, c)
	}
	return handler
}

// adaptPredicate adapts a user's predicate to the engine. The result returns false if the object has a different type.
func adaptPredicate[T client.Object](function string, predicate func(*Request[T]) bool, c client.Client) func(*invoke.Request) bool {
	return func(call *invoke.Request) bool {
		req, err := newRequest[T](call)
		if err != nil {
			return false
		}
		req.Client = c
		return guard.Value(function, func() bool { return predicate(req) })
	}
}

// check returns the handler's errors that depend on the kind, and resolves its owner kinds.
func (h *typedHandler[T]) check(obj T, scheme *runtime.Scheme) (errs []error) {
	if h.Policy.Backoff != nil && h.Policy.BackoffFunc != nil {
		errs = append(errs, errors.New("Backoff and BackoffFunc are mutually exclusive: remove one"))
	}
	if p := h.Policy; (h.handlerKind == eventHandler || h.handlerKind == eventAboutHandler) && p.Retries == nil &&
		(p.Backoff != nil || p.BackoffFunc != nil || p.Timeout != nil) {
		errs = append(errs, fmt.Errorf("Backoff, BackoffFunc and Timeout have no effect without Retries, because %s are called once: add Retries", h.handlerKind))
	}
	if h.events != nil {
		errs = append(errs, h.events.Resolve(obj, func(one client.Object) (schema.GroupVersionKind, error) { return gvkOf(one, scheme) }))
	}
	if h.handlerKind == timerHandler || h.handlerKind == daemonHandler {
		errs = append(errs, h.checkTask()...)
	}
	if h.Criteria.Field != nil && !h.isForCondition() {
		path := strings.Join(h.Criteria.Field.Path, ".")
		if root := validation.GoType(reflect.TypeOf(obj)); root != nil {
			for _, err := range h.checkField(root, fmt.Sprintf("the Go type %T", obj)) {
				errs = append(errs, fmt.Errorf("Field(%q): %w", path, err))
			}
		}
	}
	if h.Store != nil && validation.GoType(reflect.TypeOf(obj)) != nil {
		if err := progress.CheckType(obj, h.Store); err != nil {
			errs = append(errs, fmt.Errorf("StoreIn: %w", err))
		}
	}
	h.Owners = nil
	for _, owner := range h.owners {
		gvk, err := apiutil.GVKForObject(owner, scheme)
		if err != nil || gvk.Empty() {
			errs = append(errs, fmt.Errorf("OwnedBy(%T): the kind is not registered in the manager's scheme: "+
				"call AddToScheme of its API package: %w", owner, orNoKind(err)))
			continue
		}
		h.Owners = append(h.Owners, gvk.GroupKind())
	}
	return errs
}

// essenceFields returns the handlers' fields that the engine must add to the essence, because they aren't part of it by default.
func (r *Resource[T]) essenceFields() (paths [][]string) {
	for _, h := range r.handlers {
		if f := h.Criteria.Field; f != nil && slices.Contains([]string{"status", "metadata"}, f.Path[0]) {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// watchedFields returns the fields outside of the default essence whose changes trigger handlers. Other handlers use their fields only as
// filters.
func (r *Resource[T]) watchedFields() (paths [][]string) {
	for _, h := range r.handlers {
		f := h.Criteria.Field
		if f == nil || h.handlerKind != causeHandler || !h.ReceivesDiff(string(ReasonUpdate)) {
			continue
		}
		if f.Path[0] == "status" || f.Path[0] == "metadata" && len(f.Path) > 1 && f.Path[1] != "labels" && f.Path[1] != "annotations" {
			paths = append(paths, f.Path)
		}
	}
	return paths
}
