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

// reservations are what the running operators of this process keep on the objects of which kinds. Two that
// share a finalizer or a baseline would undo each other's work, for ever; two that share a peering object would both pause.
var reservations sync.Map

type reservation struct {
	mgr  manager.Manager
	gvk  schema.GroupVersionKind
	mark any // a finalizer's name, a place for the baseline, or the name of a peering object
}

// claim reserves the kinds for the operator, until it is released.
func (o *Operator) reserveKinds(kinds []engine.Kind) (release func(), err error) {
	var mine []reservation
	release = func() {
		for _, c := range mine {
			reservations.Delete(c)
		}
	}
	var errs []error
	take := func(gvk schema.GroupVersionKind, mark any, what, option string) {
		if !reflect.ValueOf(mark).Comparable() {
			return // a user's own: there is no telling
		}
		c := reservation{o.mgr, gvk, mark}
		if _, taken := reservations.LoadOrStore(c, true); taken {
			errs = append(errs, fmt.Errorf("%s: another operator of this manager has the same %s: "+
				"put the handlers into one operator, or give them different ones by %s", gvk.Kind, what, option))
			return
		}
		mine = append(mine, c)
	}
	for _, kind := range kinds {
		if len(kind.Handlers.IDs())+len(kind.Backgrounds.IDs()) == 0 {
			continue // nothing is kept on its objects
		}
		take(kind.GVK, o.settings.Finalizer, "finalizer", "WithFinalizer")
		if len(kind.Handlers.IDs()) == 0 {
			continue
		}
		take(kind.GVK, o.settings.Baseline, "place for the baseline", "WithBaseline (and WithProgress)")
	}
	if err := errors.Join(errs...); err != nil {
		release()
		return nil, fmt.Errorf("the operator cannot start:\n%w", err)
	}
	return release, nil
}
