package kopf

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
)

// reserveKinds reserves the finalizer and the baseline for the given kinds, until release is called.
func (o *Operator) reserveKinds(kinds []engine.Kind) (release func(), err error) {
	var wanted []operator.Reservation
	texts := map[operator.Reservation]string{}
	reserve := func(kind *engine.Kind, value any, name, option string) {
		if !reflect.ValueOf(value).Comparable() {
			return // a custom implementation, which cannot be compared
		}
		r := operator.Reservation{Manager: o.mgr, Kind: kind.GVK, Value: value}
		wanted, texts[r] = append(wanted, r), fmt.Sprintf("%s: another operator of this manager has the same %s: "+
			"put the handlers into one operator, or set another one with %s", kind.GVK.Kind, name, option)
	}
	for _, kind := range kinds {
		if len(kind.Handlers.IDs())+len(kind.BackgroundHandlers.IDs()) == 0 {
			continue // the operator stores nothing on objects of this kind
		}
		reserve(&kind, o.settings.Finalizer, "finalizer", "WithFinalizer")
		if len(kind.Handlers.IDs()) == 0 {
			continue // daemons and timers need no baseline
		}
		reserve(&kind, o.settings.Baseline, "baseline", "WithBaseline (and WithProgress)")
	}
	release, taken := operator.Reserve(wanted...)
	var errs []error
	for _, r := range taken {
		errs = append(errs, errors.New(texts[r]))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("the operator cannot start:\n%w", err)
	}
	return release, nil
}
