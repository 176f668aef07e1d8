package kinds

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
)

// Reserve reserves the finalizer and the baseline for the given kinds, until release is called.
func (r *Runtime) Reserve(kinds []Kind) (release func(), err error) {
	var wanted []operator.Reservation
	texts := map[operator.Reservation]string{}
	reserve := func(kind *engine.Kind, value any, name, option string) {
		if !reflect.ValueOf(value).Comparable() {
			return // custom implementations can't be compared
		}
		one := operator.Reservation{Manager: r.Manager, Kind: kind.GVK, Value: value}
		wanted, texts[one] = append(wanted, one), fmt.Sprintf("%s: another operator of this manager has the same %s: "+
			"put the handlers into one operator, or set another one with %s", kind.GVK.Kind, name, option)
	}
	for _, kind := range kinds {
		if len(kind.Handlers.IDs())+len(kind.BackgroundHandlers.IDs()) == 0 {
			continue // the operator stores nothing on objects of this kind
		}
		reserve(&kind.Kind, r.Settings.Finalizer, "finalizer", "WithFinalizer")
		if len(kind.Handlers.IDs()) == 0 {
			continue // daemons and timers don't need a baseline
		}
		reserve(&kind.Kind, r.Settings.Baseline, "baseline", "WithBaseline (and WithProgress)")
	}
	release, taken := operator.Reserve(wanted...)
	var errs []error
	for _, one := range taken {
		errs = append(errs, errors.New(texts[one]))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("the operator cannot start:\n%w", err)
	}
	return release, nil
}
