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

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/execution"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// A resource is a [Resource] of any type.
type resource interface {
	// kind returns what the engine needs; the error joins all mistakes of the declaration.
	kind(scheme *runtime.Scheme, store progress.Store, c client.Client) (engine.Kind, error)
	options() *resourceOptions
	ownedKinds() []ownedKind
	buildHooks(o *Operator) []webhooks.Hook
	hasOnlyAdmission() bool
	handlersWithUncheckedFields() []*declaration
	identity() any // the same for all views
	controllerName(scheme *runtime.Scheme) string
}

func (r *Resource[T]) options() *resourceOptions { return &r.resourceOptions }
func (r *Resource[T]) ownedKinds() []ownedKind   { return r.owned }
func (r *Resource[T]) identity() any             { return r.sharedResource }

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

func (r *Resource[T]) applyTo(o *Operator) {
	if r == nil {
		o.addError(errors.New("a resource is nil: make it with For"))
		return
	}
	if !slices.ContainsFunc(o.resources, func(other resource) bool { return other.identity() == r.identity() }) {
		o.resources = append(o.resources, r)
	}
}

// CheckDeclaration checks the declaration of the operator: its options, its resources and their handlers. It returns all errors, joined; each names
// the kind and the handler. It sends no request to the API server, and it does not call handlers: see kopftest.Check for a test of handlers.
//
// [SetupWithManager] and [Operator.Start] check the declaration, too. Start also checks that the API server serves the kinds.
func (o *Operator) CheckDeclaration() error {
	_, err := o.engineKinds()
	return err
}

// kinds are the resources as the engine needs them.
func (o *Operator) engineKinds() ([]engine.Kind, error) {
	errs := slices.Clone(o.errs)
	if o.mgr == nil {
		return nil, errors.Join(append(errs, errors.New("the manager is nil: give New a manager"))...)
	}
	if len(o.resources) == 0 {
		errs = append(errs, errors.New("the operator has no resources: give New at least one, made with For"))
	}
	var kinds []engine.Kind
	seen := map[schema.GroupVersionKind]bool{}
	for _, r := range o.resources {
		kind, err := r.kind(o.mgr.GetScheme(), o.settings.Store, o.mgr.GetClient())
		if err != nil {
			errs = append(errs, err)
		}
		if seen[kind.GVK] && !kind.GVK.Empty() {
			errs = append(errs, fmt.Errorf("%s: it is declared by two resources: put the handlers into one", kind.GVK.Kind))
		}
		seen[kind.GVK] = true
		kinds = append(kinds, kind)
		if kind.New == nil {
			continue
		}
		for _, place := range []any{o.settings.Store, o.settings.Baseline} {
			if err := progress.CheckType(kind.New(), place); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", kind.GVK.Kind, err))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("the operator cannot start:\n%w", err)
	}
	return kinds, nil
}

func (r *Resource[T]) kind(scheme *runtime.Scheme, store progress.Store, c client.Client) (engine.Kind, error) {
	if isNil(r.obj) {
		return engine.Kind{}, errors.New("For(nil): give it an object of the kind, such as &v1.Database{}")
	}
	gvk, err := apiutil.GVKForObject(r.obj, scheme)
	if err != nil || gvk.Empty() {
		return engine.Kind{}, fmt.Errorf("%T: the manager's scheme does not know the kind: "+
			"add its AddToScheme to the scheme, or set the kind of an unstructured object: %w", r.obj, orNoKind(err))
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

// register hands the handlers over to the engine, and tells what is wrong with them.
func (r *Resource[T]) register(kind *engine.Kind, scheme *runtime.Scheme, store progress.Store, c client.Client) (errs []error) {
	if len(r.handlers)+len(r.indexes)+len(r.hooks) == 0 {
		errs = append(errs, errNoHandlers)
	}
	ids := map[string]bool{}
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
		switch {
		case h.id == "":
			addErrors(h, errors.New("the id is empty: give it a name, it is stored on the objects"))
		case strings.TrimSpace(h.id) != h.id:
			addErrors(h, fmt.Errorf("the id %q begins or ends with a space: leave it out", h.id))
		case ids[h.fullID()]: // daemons and timers share the ids with all others (HND-20)
			addErrors(h, fmt.Errorf("the id %q is used twice: give one of the handlers another id, "+
				"or use On for one function with several reasons", h.fullID()))
		case h.handlerKind == causeHandler:
			addErrors(h, addCauseHandler(kind, store, h, c))
		}
		ids[h.fullID()] = true
	}
	for _, h := range r.handlers {
		if h.handlerKind == eventHandler {
			_ = kind.Spies.Add(h.fullID(), h.fullID(), h.forEngine(c)) // its id was checked
		}
		if h.handlerKind == reconcileHandler {
			_ = kind.Levels.Add(h.fullID(), h.fullID(), h.forEngine(c))
		}
		if h.handlerKind == daemonHandler || h.handlerKind == timerHandler {
			_ = kind.Backgrounds.Add(h.fullID(), h.fullID(), &engine.Background{Handler: h.forEngine(c), Task: h.task, Delay: h.initialDelayFunc})
		}
	}
	for _, x := range r.indexes {
		_ = x.register(kind, x.forEngine(c))
	}
	kind.Fields, kind.Conditions = r.essenceFields(), r.watchedConditions()
	kind.Watched, kind.OwnChanges = r.watchedFields(), r.ownChanges
	kind.ConditionOptions = r.conditionPlaces
	kind.Declared, kind.Root = r.conditionTypes, r.effectiveRoot()
	if err := r.checkConditions(kind.New()); err != nil {
		errs = append(errs, err)
	}
	if r.hasOnlyAdmission() {
		errs = append(errs, r.checkUnusedOptions()...)
	}
	if len(r.owned) > 0 && len(kind.Levels.IDs()) == 0 {
		errs = append(errs, errors.New("Owns means nothing without an OnReconcile handler: add one, or leave it out"))
	}
	for i, c := range r.owned {
		if isNil(c.obj) {
			errs = append(errs, errors.New("Owns(nil): give it an object of the owned kind, such as &appsv1.Deployment{}"))
			continue
		}
		gvk, err := apiutil.GVKForObject(c.obj, scheme)
		if err != nil || gvk.Empty() {
			errs = append(errs, fmt.Errorf("Owns(%T): the manager's scheme does not know the kind: "+
				"add its AddToScheme to the scheme, or set the kind of an unstructured object: %w", c.obj, orNoKind(err)))
			continue
		}
		r.owned[i].gvk = gvk
		if slices.Contains(c.predicates, nil) {
			errs = append(errs, fmt.Errorf("Owns(%T) has a nil predicate: leave it out", c.obj))
		}
	}
	return append(errs, checkAfter(kind)...)
}

func addCauseHandler[T client.Object](kind *engine.Kind, store progress.Store, h *typedHandler[T], c client.Client) error {
	id := h.fullID()
	key := id
	if checker, ok := store.(progress.KeyChecker); ok {
		var err error
		if key, err = checker.Key(id); err != nil {
			return err
		}
	}
	return kind.Handlers.Add(id, key, h.forEngine(c))
}

// forEngine is the handler as the engine needs it.
func (h *typedHandler[T]) forEngine(c client.Client) engine.Handler {
	handler := h.Handler
	handler.Do, handler.Hints = h.fn.forEngine(c), &execution.Warnings{}
	if h.handlerKind == reconcileHandler && handler.Policy.Backoff == nil && handler.Policy.BackoffFunc == nil {
		handler.Policy.BackoffFunc = reconcileBackoff
	}
	for _, match := range h.when {
		handler.When = append(handler.When, adaptPredicate(match, c))
	}
	if h.changed != nil {
		handler.Changed = adaptPredicate(h.changed, c)
	}
	return handler
}

// asked makes a test of the user's one that the engine can ask.
func adaptPredicate[T client.Object](test func(*Request[T]) bool, c client.Client) func(*engine.Call) bool {
	return func(call *engine.Call) bool {
		req, err := newRequest[T](call)
		if err != nil {
			return false
		}
		req.Client = c
		return test(req)
	}
}

// check tells what is wrong with a handler that needs to know the kind, and resolves what does.
func (h *typedHandler[T]) check(obj T, scheme *runtime.Scheme) (errs []error) {
	if h.Policy.Backoff != nil && h.Policy.BackoffFunc != nil {
		errs = append(errs, errors.New("it has both Backoff and BackoffFunc: leave one out"))
	}
	if h.handlerKind == timerHandler {
		errs = append(errs, h.checkTimer()...)
	}
	if h.Criteria.Field != nil && !h.isForCondition() {
		path := strings.Join(h.Criteria.Field.Path, ".")
		if h.handlerKind == causeHandler && (path == "metadata.resourceVersion" || path == "metadata.managedFields") {
			errs = append(errs, fmt.Errorf("Field(%q): each write changes it, also those of the operator: use OnEvent to follow all writes", path))
		}
		if root := goType(reflect.TypeOf(obj)); root != nil {
			for _, err := range h.fieldProblems(root, fmt.Sprintf("the Go type %T", obj)) {
				errs = append(errs, fmt.Errorf("Field(%q): %w", path, err))
			}
		}
	}
	h.Owners = nil
	for _, owner := range h.owners {
		gvk, err := apiutil.GVKForObject(owner, scheme)
		if err != nil || gvk.Empty() {
			errs = append(errs, fmt.Errorf("OwnedBy(%T): the manager's scheme does not know the kind: "+
				"add its AddToScheme to the scheme: %w", owner, orNoKind(err)))
			continue
		}
		h.Owners = append(h.Owners, gvk.GroupKind())
	}
	return errs
}

// fieldProblems reports a field that does not exist, and values that it never has. The source is the Go type or the schema.
func (d *declaration) fieldProblems(root fieldType, source string) (errs []error) {
	field, unknown, suggestion := lookUpField(root, d.Criteria.Field.Path)
	if unknown != "" {
		hint := ""
		if suggestion != "" {
			hint = fmt.Sprintf("; did you mean %s?", suggestion)
		}
		return []error{fmt.Errorf("%s has no field %s: correct the path%s", source, unknown, hint)}
	}
	for _, l := range d.literals {
		if why := explainMismatch(l, field); why != "" {
			errs = append(errs, fmt.Errorf("%s can never match: %s", l, why))
		}
	}
	return errs
}

// fields are those that handlers want to know of, as far as they are not essential anyway. Indexes see the
// objects themselves.
func (r *Resource[T]) essenceFields() (paths [][]string) {
	for _, h := range r.handlers {
		if f := h.Criteria.Field; f != nil && slices.Contains([]string{"status", "metadata"}, f.Path[0]) {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// watched are the fields outside of the essence to whose changes handlers react. Other handlers only filter by their fields.
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

// checkAfter resolves the ids in After, and finds those that do not exist, and circles.
func checkAfter(kind *engine.Kind) (errs []error) {
	waits := map[string][]string{}
	for _, id := range kind.Handlers.IDs() {
		handler, _ := kind.Handlers.Get(id)
		for i, first := range handler.After {
			if _, ok := kind.Handlers.Get(first); ok {
				continue
			}
			// Handlers for fields may be named without them.
			named := slices.DeleteFunc(slices.Clone(kind.Handlers.IDs()), func(other string) bool {
				h, _ := kind.Handlers.Get(other)
				return h.Field == nil || other != first+"/"+strings.Join(h.Field.Path, ".")
			})
			if len(named) != 1 {
				errs = append(errs, fmt.Errorf("handler %q comes after %q, which is no handler of this kind: correct the id", id, first))
				continue
			}
			handler.After[i] = named[0]
		}
		for _, first := range handler.After {
			if other, ok := kind.Handlers.Get(first); ok && !shareCause(handler, other) {
				errs = append(errs, fmt.Errorf("handler %q comes after %q, but no change calls both (%s and %s): leave out the After",
					id, first, strings.Join(handler.Reasons, ", "), strings.Join(other.Reasons, ", ")))
			}
		}
		waits[id] = handler.After
	}
	for _, id := range kind.Handlers.IDs() {
		if circle := findCycle(waits, id, nil); circle != nil && circle[0] == id && slices.Min(circle) == id {
			errs = append(errs, fmt.Errorf("the handlers %s come after each other in a circle: leave out one After",
				strings.Join(append(circle, id), " → ")))
		}
	}
	return errs
}

// shareCause reports whether there are causes for which both handlers are called. A resume handler joins the first cause of an object that
// exists already.
func shareCause(a, b engine.Handler) bool {
	is := func(h engine.Handler, reasons ...Reason) bool {
		return h.AnyReason || slices.ContainsFunc(reasons, func(reason Reason) bool { return slices.Contains(h.Reasons, string(reason)) })
	}
	for _, reason := range causeReasons {
		if is(a, reason) && is(b, reason) {
			return true
		}
	}
	return is(a, ReasonResume) && is(b, ReasonUpdate, ReasonDelete) || is(b, ReasonResume) && is(a, ReasonUpdate, ReasonDelete)
}

// findCycle follows the handlers that one comes after, back to itself.
func findCycle(waits map[string][]string, id string, path []string) []string {
	if i := slices.Index(path, id); i >= 0 {
		return path[i:]
	}
	for _, first := range waits[id] {
		if circle := findCycle(waits, first, append(slices.Clone(path), id)); circle != nil {
			return circle
		}
	}
	return nil
}

func isNil(obj client.Object) bool {
	v := reflect.ValueOf(obj)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

func orNoKind(err error) error {
	if err == nil {
		return errors.New("it has no kind")
	}
	return err
}
