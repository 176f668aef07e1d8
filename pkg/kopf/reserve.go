package kopf

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
)

// reservations contains a [reservation] for each finalizer, baseline, peering object and ring that a running operator of this process uses. Two
// operators with the same finalizer or baseline on one kind would overwrite each other's data. Two operators with the same peering object would
// pause each other. Two operators in the same ring would use the same Lease.
var reservations sync.Map

// A reservation is exclusive: an operator cannot start while another operator of the same manager has an equal reservation.
type reservation struct {
	mgr   manager.Manager
	gvk   schema.GroupVersionKind
	value any // the finalizer, the baseline, or the name of the peering object or of the ring
}

// reserveKinds reserves the finalizer and the baseline for the given kinds, until release is called.
func (o *Operator) reserveKinds(kinds []engine.Kind) (release func(), err error) {
	var reserved []reservation
	release = func() {
		for _, r := range reserved {
			reservations.Delete(r)
		}
	}
	var errs []error
	reserve := func(gvk schema.GroupVersionKind, value any, name, option string) {
		if !reflect.ValueOf(value).Comparable() {
			return // a custom implementation, which cannot be compared
		}
		r := reservation{o.mgr, gvk, value}
		if _, taken := reservations.LoadOrStore(r, true); taken {
			errs = append(errs, fmt.Errorf("%s: another operator of this manager has the same %s: "+
				"put the handlers into one operator, or set another one with %s", gvk.Kind, name, option))
			return
		}
		reserved = append(reserved, r)
	}
	for _, kind := range kinds {
		if len(kind.Handlers.IDs())+len(kind.BackgroundHandlers.IDs()) == 0 {
			continue // the operator stores nothing on objects of this kind
		}
		reserve(kind.GVK, o.settings.Finalizer, "finalizer", "WithFinalizer")
		if len(kind.Handlers.IDs()) == 0 {
			continue // daemons and timers need no baseline
		}
		reserve(kind.GVK, o.settings.Baseline, "baseline", "WithBaseline (and WithProgress)")
	}
	if err := errors.Join(errs...); err != nil {
		release()
		return nil, fmt.Errorf("the operator cannot start:\n%w", err)
	}
	return release, nil
}
