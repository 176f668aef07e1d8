package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/bench/api/v1"
)

// A side is an implementation.
type side string

const (
	library side = "kopf"
	plain   side = "plain"
	bare    side = "bare" // only the informer, without handlers

	// Both use the library: with daemons or timers, and without.
	with    side = "with"
	without side = "without"
)

// A step is the work of one handler. It is very short, because the benchmark measures the overhead.
type step struct {
	id string
	do func(*v1.Spec, *v1.Status)
}

var steps = []step{
	{"provision", func(spec *v1.Spec, status *v1.Status) { status.Phase, status.Size = "Ready", spec.Size }},
	{"announce", func(spec *v1.Spec, status *v1.Status) { status.Address = fmt.Sprintf("10.0.0.%d", spec.Size) }},
	{"register", func(spec *v1.Spec, status *v1.Status) { status.Owner = spec.Settings["region"] }},
}

// A role is the configuration of an operator process.
type role struct {
	Side      side
	Kind      string
	Namespace string
	Handlers  int
	Finalizer bool
	Workers   int

	Background background
	Interval   time.Duration // interval of timers

	Profile string // file of a CPU profile, with one of the heap beside it; empty: none
}

// addOperator adds the operator of a role to a manager; the wrapper wraps each reconcile.
func addOperator(mgr manager.Manager, r role, n *notes, wrap func(reconcile.Reconciler) reconcile.Reconciler) error {
	switch {
	case r.Side == bare:
		return nil
	case r.Side == plain:
		return reconciler(mgr, r, wrap)
	case r.Kind == widgets.name:
		return kopf.SetupWithManager(mgr, handlers(&v1.Widget{}, r, n), kopf.WithReconcilerWrapper(wrap))
	default:
		return kopf.SetupWithManager(mgr, handlers(&v1.Gadget{}, r, n), kopf.WithReconcilerWrapper(wrap))
	}
}

// handlers returns the implementation with the library.
func handlers[T v1.Object](obj T, r role, n *notes) *kopf.Resource[T] {
	resource := kopf.For(obj, kopf.WithMaxConcurrentReconciles(r.Workers))
	for _, s := range steps[:r.Handlers] {
		resource.On(s.id, []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}, func(_ context.Context, req *kopf.Request[T]) error {
			s.do(req.Object.Content())
			return nil
		})
	}
	if r.Finalizer {
		resource.OnDelete("drop", func(context.Context, *kopf.Request[T]) error { return nil })
	}
	addBackground(resource, r, n)
	return resource
}

// handled reports whether the object has all writes of a side for the present spec.
func (s side) handled(obj v1.Object) bool {
	spec, status := obj.Content()
	if status.Phase != "Ready" || status.Size != spec.Size {
		return false
	}
	if s == plain {
		return obj.GetAnnotations()[observedKey] == observed(spec)
	}
	var last struct{ Spec v1.Spec }
	text := obj.GetAnnotations()[progress.DefaultPrefix+"/last-handled-configuration"]
	return json.Unmarshal([]byte(text), &last) == nil && last.Spec.Size == spec.Size
}

// marked is the annotation with the handled spec of a side.
func (s side) marked(obj client.Object) map[string]string {
	key := observedKey
	if s == library {
		key = progress.DefaultPrefix + "/last-handled-configuration"
	}
	return map[string]string{key: obj.GetAnnotations()[key]}
}
