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
	owned() []child
	admission(o *Operator) []webhooks.Hook
	onlyAdmits() bool
	untypedFields() []*declaration
	identity() any // the same for all views
	controllerName(scheme *runtime.Scheme) string
}

func (r *Resource[T]) options() *resourceOptions { return &r.resourceOptions }
func (r *Resource[T]) owned() []child            { return r.children }
func (r *Resource[T]) identity() any             { return r.declared }

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
		o.mistake(errors.New("a resource is nil: make it with For"))
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
	_, err := o.kinds()
	return err
}

// kinds are the resources as the engine needs them.
func (o *Operator) kinds() ([]engine.Kind, error) {
	problems := slices.Clone(o.mistakes)
	if o.mgr == nil {
		return nil, errors.Join(append(problems, errors.New("the manager is nil: give New a manager"))...)
	}
	if len(o.resources) == 0 {
		problems = append(problems, errors.New("the operator has no resources: give New at least one, made with For"))
	}
	var kinds []engine.Kind
	seen := map[schema.GroupVersionKind]bool{}
	for _, r := range o.resources {
		kind, err := r.kind(o.mgr.GetScheme(), o.settings.Store, o.mgr.GetClient())
		if err != nil {
			problems = append(problems, err)
		}
		if seen[kind.GVK] && !kind.GVK.Empty() {
			problems = append(problems, fmt.Errorf("%s: it is declared by two resources: put the handlers into one", kind.GVK.Kind))
		}
		seen[kind.GVK] = true
		kinds = append(kinds, kind)
		if kind.New == nil {
			continue
		}
		for _, place := range []any{o.settings.Store, o.settings.Baseline} {
			if err := progress.CheckType(kind.New(), place); err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", kind.GVK.Kind, err))
			}
		}
	}
	if err := errors.Join(problems...); err != nil {
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
			"add its AddToScheme to the scheme, or set the kind of an unstructured object: %w", r.obj, orUnset(err))
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
	problems := append(slices.Clone(r.mistakes), r.register(&kind, scheme, store, c)...)
	for i, problem := range problems {
		problems[i] = fmt.Errorf("%s: %w", gvk.Kind, problem)
	}
	return kind, errors.Join(problems...)
}

// register hands the handlers over to the engine, and tells what is wrong with them.
func (r *Resource[T]) register(kind *engine.Kind, scheme *runtime.Scheme, store progress.Store, c client.Client) (problems []error) {
	if len(r.handlers)+len(r.indexes)+len(r.hooks) == 0 {
		problems = append(problems, errNoHandlers)
	}
	ids := map[string]bool{}
	complain := func(h *handlerOf[T], mistakes ...error) {
		for _, mistake := range mistakes {
			if mistake != nil {
				problems = append(problems, fmt.Errorf("%s: %w", h.where(), mistake))
			}
		}
	}
	all := slices.Clone(r.handlers)
	for _, x := range r.indexes {
		all = append(all, x.handlerOf)
	}
	for _, h := range all {
		complain(h, h.mistakes...)
		complain(h, h.check(r.obj, scheme)...)
		switch {
		case h.id == "":
			complain(h, errors.New("the id is empty: give it a name, it is stored on the objects"))
		case strings.TrimSpace(h.id) != h.id:
			complain(h, fmt.Errorf("the id %q begins or ends with a space: leave it out", h.id))
		case ids[h.fullID()]: // daemons and timers share the ids with all others (HND-20)
			complain(h, fmt.Errorf("the id %q is used twice: give one of the handlers another id, "+
				"or use On for one function with several reasons", h.fullID()))
		case h.role == handling:
			complain(h, addCausal(kind, store, h, c))
		}
		ids[h.fullID()] = true
	}
	for _, h := range r.handlers {
		if h.role == spying {
			_ = kind.Spies.Add(h.fullID(), h.fullID(), h.forEngine(c)) // its id was checked
		}
		if h.role == leveling {
			_ = kind.Levels.Add(h.fullID(), h.fullID(), h.forEngine(c))
		}
		if h.role == daemon || h.role == timer {
			_ = kind.Backgrounds.Add(h.fullID(), h.fullID(), &engine.Background{Handler: h.forEngine(c), Task: h.task, Delay: h.delay})
		}
	}
	for _, x := range r.indexes {
		_ = x.register(kind, x.forEngine(c))
	}
	kind.Fields, kind.Conditions = r.fields(), r.transitions()
	kind.Watched, kind.OwnChanges = r.watched(), r.ownChanges
	kind.ConditionOptions = r.places
	kind.Declared, kind.Root = r.resourceOptions.conditions, r.summary()
	if err := r.checkConditions(kind.New()); err != nil {
		problems = append(problems, err)
	}
	if r.onlyAdmits() {
		problems = append(problems, r.idle()...)
	}
	if len(r.children) > 0 && len(kind.Levels.IDs()) == 0 {
		problems = append(problems, errors.New("Owns means nothing without an OnReconcile handler: add one, or leave it out"))
	}
	for i, c := range r.children {
		if isNil(c.obj) {
			problems = append(problems, errors.New("Owns(nil): give it an object of the owned kind, such as &appsv1.Deployment{}"))
			continue
		}
		gvk, err := apiutil.GVKForObject(c.obj, scheme)
		if err != nil || gvk.Empty() {
			problems = append(problems, fmt.Errorf("Owns(%T): the manager's scheme does not know the kind: "+
				"add its AddToScheme to the scheme, or set the kind of an unstructured object: %w", c.obj, orUnset(err)))
			continue
		}
		r.children[i].gvk = gvk
		if slices.Contains(c.predicates, nil) {
			problems = append(problems, fmt.Errorf("Owns(%T) has a nil predicate: leave it out", c.obj))
		}
	}
	return append(problems, checkAfter(kind)...)
}

func addCausal[T client.Object](kind *engine.Kind, store progress.Store, h *handlerOf[T], c client.Client) error {
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
func (h *handlerOf[T]) forEngine(c client.Client) engine.Handler {
	handler := h.Handler
	handler.Do, handler.Hints = h.fn.do(c), &execution.Warnings{}
	if h.role == leveling && handler.Policy.Backoff == nil && handler.Policy.BackoffFunc == nil {
		handler.Policy.BackoffFunc = levelBackoff
	}
	for _, match := range h.when {
		handler.When = append(handler.When, asked(match, c))
	}
	if h.changed != nil {
		handler.Changed = asked(h.changed, c)
	}
	return handler
}

// asked makes a test of the user's one that the engine can ask.
func asked[T client.Object](test func(*Request[T]) bool, c client.Client) func(*engine.Call) bool {
	return func(call *engine.Call) bool {
		req, err := requestOf[T](call)
		if err != nil {
			return false
		}
		req.Client = c
		return test(req)
	}
}

// check tells what is wrong with a handler that needs to know the kind, and resolves what does.
func (h *handlerOf[T]) check(obj T, scheme *runtime.Scheme) (mistakes []error) {
	if h.Policy.Backoff != nil && h.Policy.BackoffFunc != nil {
		mistakes = append(mistakes, errors.New("it has both Backoff and BackoffFunc: leave one out"))
	}
	if h.role == timer {
		mistakes = append(mistakes, h.checkTimer()...)
	}
	if h.Criteria.Field != nil && !h.isTransition() {
		path := strings.Join(h.Criteria.Field.Path, ".")
		if h.role == handling && (path == "metadata.resourceVersion" || path == "metadata.managedFields") {
			mistakes = append(mistakes, fmt.Errorf("Field(%q): each write changes it, also those of the operator: use OnEvent to follow all writes", path))
		}
		if root := goType(reflect.TypeOf(obj)); root != nil {
			for _, problem := range h.fieldProblems(root, fmt.Sprintf("the Go type %T", obj)) {
				mistakes = append(mistakes, fmt.Errorf("Field(%q): %w", path, problem))
			}
		}
	}
	h.Owners = nil
	for _, owner := range h.owners {
		gvk, err := apiutil.GVKForObject(owner, scheme)
		if err != nil || gvk.Empty() {
			mistakes = append(mistakes, fmt.Errorf("OwnedBy(%T): the manager's scheme does not know the kind: "+
				"add its AddToScheme to the scheme: %w", owner, orUnset(err)))
			continue
		}
		h.Owners = append(h.Owners, gvk.GroupKind())
	}
	return mistakes
}

// fieldProblems reports a field that does not exist, and values that it never has. The source is the Go type or the schema.
func (d *declaration) fieldProblems(root fieldType, source string) (problems []error) {
	field, unknown, probable := lookUpField(root, d.Criteria.Field.Path)
	if unknown != "" {
		hint := ""
		if probable != "" {
			hint = fmt.Sprintf("; did you mean %s?", probable)
		}
		return []error{fmt.Errorf("%s has no field %s: correct the path%s", source, unknown, hint)}
	}
	for _, l := range d.literals {
		if why := mismatch(l, field); why != "" {
			problems = append(problems, fmt.Errorf("%s can never match: %s", l, why))
		}
	}
	return problems
}

// fields are those that handlers want to know of, as far as they are not essential anyway. Indexes see the
// objects themselves.
func (r *Resource[T]) fields() (paths [][]string) {
	for _, h := range r.handlers {
		if f := h.Criteria.Field; f != nil && slices.Contains([]string{"status", "metadata"}, f.Path[0]) {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// watched are the fields outside of the essence to whose changes handlers react. Other handlers only filter by their fields.
func (r *Resource[T]) watched() (paths [][]string) {
	for _, h := range r.handlers {
		f := h.Criteria.Field
		if f == nil || h.role != handling || !h.ReceivesDiff(string(ReasonUpdate)) {
			continue
		}
		if f.Path[0] == "status" || f.Path[0] == "metadata" && len(f.Path) > 1 && f.Path[1] != "labels" && f.Path[1] != "annotations" {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// checkAfter resolves the ids in After, and finds those that do not exist, and circles.
func checkAfter(kind *engine.Kind) (problems []error) {
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
				problems = append(problems, fmt.Errorf("handler %q comes after %q, which is no handler of this kind: correct the id", id, first))
				continue
			}
			handler.After[i] = named[0]
		}
		for _, first := range handler.After {
			if other, ok := kind.Handlers.Get(first); ok && !shareCause(handler, other) {
				problems = append(problems, fmt.Errorf("handler %q comes after %q, but no change calls both (%s and %s): leave out the After",
					id, first, strings.Join(handler.Reasons, ", "), strings.Join(other.Reasons, ", ")))
			}
		}
		waits[id] = handler.After
	}
	for _, id := range kind.Handlers.IDs() {
		if circle := circleFrom(waits, id, nil); circle != nil && circle[0] == id && slices.Min(circle) == id {
			problems = append(problems, fmt.Errorf("the handlers %s come after each other in a circle: leave out one After",
				strings.Join(append(circle, id), " → ")))
		}
	}
	return problems
}

// shareCause reports whether there are causes for which both handlers are called. A resume handler joins the first cause of an object that
// exists already.
func shareCause(a, b engine.Handler) bool {
	is := func(h engine.Handler, reasons ...Reason) bool {
		return h.AnyReason || slices.ContainsFunc(reasons, func(reason Reason) bool { return slices.Contains(h.Reasons, string(reason)) })
	}
	for _, reason := range handled {
		if is(a, reason) && is(b, reason) {
			return true
		}
	}
	return is(a, ReasonResume) && is(b, ReasonUpdate, ReasonDelete) || is(b, ReasonResume) && is(a, ReasonUpdate, ReasonDelete)
}

// circleFrom follows the handlers that one comes after, back to itself.
func circleFrom(waits map[string][]string, id string, path []string) []string {
	if i := slices.Index(path, id); i >= 0 {
		return path[i:]
	}
	for _, first := range waits[id] {
		if circle := circleFrom(waits, first, append(slices.Clone(path), id)); circle != nil {
			return circle
		}
	}
	return nil
}

func isNil(obj client.Object) bool {
	v := reflect.ValueOf(obj)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

func orUnset(err error) error {
	if err == nil {
		return errors.New("it has no kind")
	}
	return err
}
