package kopf

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/internal/declare"
	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
)

func (r *Resource[T]) applyTo(o *Operator) {
	if r == nil {
		o.addError(errors.New("a resource is nil: create it with For"))
		return
	}
	if !slices.ContainsFunc(o.resources, func(other resource) bool { return other.identity() == r.identity() }) {
		o.resources = append(o.resources, r)
	}
}

// CheckDeclaration checks the options, resources and handlers of the operator. It returns all mistakes as one joined error, with the kind
// and the handler where they apply. CheckDeclaration doesn't send requests or call handlers. To test the handlers, use kopftest.Check.
//
// [SetupWithManager] calls CheckDeclaration. [Operator.Start] makes the same checks, and then checks that the API server serves the kinds.
func (o *Operator) CheckDeclaration() error {
	_, err := o.engineKinds()
	return err
}

// engineKinds converts all resources for the engine. It joins all errors of the declaration.
func (o *Operator) engineKinds() ([]engine.Kind, error) {
	o.checking.Lock() // CheckObjects or CheckDeclaration may be called while the operator starts
	defer o.checking.Unlock()
	errs := slices.Concat(o.errs, operator.Mistakes(o.parts(nil)))
	if o.mgr == nil {
		return nil, errors.Join(append(errs, errors.New("the manager is nil: pass a manager to New"))...)
	}
	if len(o.resources)+len(o.selections) == 0 {
		errs = append(errs, errors.New("the operator has no resources: pass at least one to New, created with For"))
	}
	var all []engine.Kind
	seen := map[schema.GroupVersionKind]bool{}
	for _, r := range o.resources {
		kind, err := r.kind(o.mgr.GetScheme(), o.kinds.Settings.Store, o.clientOf(r))
		if err != nil {
			errs = append(errs, err)
		}
		if seen[kind.GVK] && !kind.GVK.Empty() {
			errs = append(errs, fmt.Errorf("%s: two resources declare the kind: put the handlers into one", kind.GVK.Kind))
		}
		seen[kind.GVK] = true
		kind.Name = kinds.ControllerName(o.mgr, kind.Name)
		all = append(all, kind)
		if kind.New == nil {
			continue
		}
		errs = append(errs, checkKind(o.kinds, kind, r))
		if r.options().whenServed {
			o.kinds.Clients.Shared(o.mgr).Declare(kind.New())
			if len(r.triggerSources()) > 0 {
				errs = append(errs, fmt.Errorf("%s: %w", kind.GVK.Kind, errTriggerSources))
			}
		}
	}
	if len(o.selections) == 0 { // the kinds of ForKinds may have the fields
		errs = append(errs, declare.CheckIgnoredFields(&o.kinds.Settings, all)...)
	}
	errs = append(errs, operator.Check(o.parts(nil), all)...)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("the operator cannot start:\n%w", err)
	}
	return all, nil
}
