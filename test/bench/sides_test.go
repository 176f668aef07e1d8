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

// side is one of two operators whose figures are compared.
type side string

const (
	library side = "kopf"
	plain   side = "plain"
	bare    side = "bare" // only the informer, without a controller

	// Both sides use the library. One has timers or daemons, the other has none.
	with    side = "with"
	without side = "without"
)

// step is the body of one handler. Steps are very short, because the benchmark measures the overhead around them.
type step struct {
	id string
	do func(*v1.Spec, *v1.Status)
}

var steps = []step{
	{"provision", func(spec *v1.Spec, status *v1.Status) { status.Phase, status.Size = "Ready", spec.Size }},
	{"announce", func(spec *v1.Spec, status *v1.Status) { status.Address = fmt.Sprintf("10.0.0.%d", spec.Size) }},
	{"register", func(spec *v1.Spec, status *v1.Status) { status.Owner = spec.Settings["region"] }},
}

// role is the configuration of an operator process.
type role struct {
	Side      side
	Kind      string
	Namespace string
	Handlers  int
	Finalizer bool
	Workers   int

	Background background    // empty: none
	Interval   time.Duration // interval of timers

	Profile string // path of the CPU profile; empty disables profiles
}

// addOperator adds the operator of the role to the manager. wrap is called with its reconciler.
func addOperator(mgr manager.Manager, r role, m *measurements, wrap func(reconcile.Reconciler) reconcile.Reconciler) error {
	switch {
	case r.Side == bare:
		return nil
	case r.Side == plain:
		return addPlainReconciler(mgr, r, wrap)
	case r.Kind == widgets.name:
		return kopf.SetupWithManager(mgr, handlers(&v1.Widget{}, r, m), kopf.WithReconcilerWrapper(wrap))
	default:
		return kopf.SetupWithManager(mgr, handlers(&v1.Gadget{}, r, m), kopf.WithReconcilerWrapper(wrap))
	}
}

// handlers declares the operator with the library.
func handlers[T v1.Object](obj T, r role, m *measurements) *kopf.Resource[T] {
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
	addBackground(resource, r, m)
	return resource
}

// handled reports whether the operator of the side has written the status and the annotation for the present spec.
func (s side) handled(obj v1.Object) bool {
	spec, status := obj.Content()
	if status.Phase != "Ready" || status.Size != spec.Size {
		return false
	}
	if s == plain {
		return obj.GetAnnotations()[hashAnnotation] == specHash(spec)
	}
	var last struct{ Spec v1.Spec }
	text := obj.GetAnnotations()[progress.DefaultPrefix+"/last-handled-configuration"]
	return json.Unmarshal([]byte(text), &last) == nil && last.Spec.Size == spec.Size
}

// handledAnnotations returns the annotation by which the operator of the side recognizes a handled object.
func (s side) handledAnnotations(obj client.Object) map[string]string {
	key := hashAnnotation
	if s == library {
		key = progress.DefaultPrefix + "/last-handled-configuration"
	}
	return map[string]string{key: obj.GetAnnotations()[key]}
}
