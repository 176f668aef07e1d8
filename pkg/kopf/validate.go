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
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A resource is a [Resource] of any type.
type resource interface {
	// kind returns what the engine needs; the error joins all mistakes of the declaration.
	kind(scheme *runtime.Scheme, store progress.Store, c client.Client) (engine.Kind, error)
	options() *resourceOptions
}

func (r *Resource[T]) options() *resourceOptions { return &r.resourceOptions }

func (r *Resource[T]) applyTo(o *Operator) {
	if r == nil {
		o.mistake(errors.New("a resource is nil: make it with For"))
		return
	}
	o.resources = append(o.resources, r)
}

// Validate tells all mistakes in the declaration of the operator, joined: which handler of which
// kind, what is wrong, what to do. It does not ask the API server; the start does that, too.
func (o *Operator) Validate() error {
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
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("the operator cannot start:\n%w", err)
	}
	return kinds, nil
}

func (r *Resource[T]) kind(scheme *runtime.Scheme, store progress.Store, c client.Client) (engine.Kind, error) {
	if v := reflect.ValueOf(r.obj); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return engine.Kind{}, errors.New("For(nil): give it an object of the kind, such as &v1.Database{}")
	}
	gvk, err := apiutil.GVKForObject(r.obj, scheme)
	if err != nil || gvk.Empty() {
		return engine.Kind{}, fmt.Errorf("%T: the manager's scheme does not know the kind: "+
			"add its AddToScheme to the scheme, or set the kind of an unstructured object: %w", r.obj, orUnset(err))
	}
	kind := engine.Kind{
		Name: r.name, GVK: gvk, Results: strings.Split(r.results, "."),
		New: func() client.Object {
			obj := reflect.New(reflect.TypeOf(r.obj).Elem()).Interface().(client.Object)
			obj.GetObjectKind().SetGroupVersionKind(gvk)
			return obj
		},
	}
	if kind.Name == "" {
		kind.Name = strings.ToLower(gvk.Kind)
	}
	problems := slices.Clone(r.mistakes)
	if len(r.handlers) == 0 {
		problems = append(problems, errors.New("it has no handlers: add one, such as OnCreate"))
	}
	for _, h := range r.handlers {
		for _, mistake := range append(h.mistakes, register(&kind, store, h, c)...) {
			problems = append(problems, fmt.Errorf("%s: %w", h.where(), mistake))
		}
	}
	for i, problem := range problems {
		problems[i] = fmt.Errorf("%s: %w", gvk.Kind, problem)
	}
	return kind, errors.Join(problems...)
}

func register[T client.Object](kind *engine.Kind, store progress.Store, h handlerOf[T], c client.Client) []error {
	handler, key := h.Handler, h.id
	handler.Do = h.fn.do(c)
	if handler.Policy.Backoff != nil && handler.Policy.BackoffFunc != nil {
		return []error{errors.New("it has both Backoff and BackoffFunc: leave one out")}
	}
	if checker, ok := store.(progress.KeyChecker); ok {
		var err error
		if key, err = checker.Key(h.id); err != nil {
			return []error{err}
		}
	} else if h.id == "" {
		return []error{errors.New("the id is empty: give it a name, it is stored on the objects")}
	}
	if err := kind.Handlers.Add(h.id, key, handler); err != nil {
		return []error{err}
	}
	return nil
}

func orUnset(err error) error {
	if err == nil {
		return errors.New("it has no kind")
	}
	return err
}
