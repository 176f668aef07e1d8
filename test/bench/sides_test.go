package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/bench/api/v1"
)

// side is one of two operators whose figures are compared.
type side string

const (
	library side = "kopf-runtime"
	plain   side = "plain"
	minimum side = "minimum" // the least that a hand-written reconciler can do
	python  side = "kopf"    // the real one, in Python
)

// step is the body of one handler. Steps are very short, because the benchmark measures the overhead around them.
type step struct {
	id           string
	typed        func(*v1.Spec, *v1.Status)
	unstructured func(spec, status map[string]any)
}

var steps = []step{
	{
		"provision",
		func(spec *v1.Spec, status *v1.Status) { status.Phase, status.Size = "Ready", spec.Size },
		func(spec, status map[string]any) { status["phase"], status["size"] = "Ready", spec["size"] },
	},
	{
		"announce",
		func(spec *v1.Spec, status *v1.Status) { status.Address = fmt.Sprintf("10.0.0.%d", spec.Size) },
		func(spec, status map[string]any) { status["address"] = fmt.Sprintf("10.0.0.%d", spec["size"]) },
	},
	{
		"register",
		func(spec *v1.Spec, status *v1.Status) { status.Owner = spec.Settings["region"] },
		func(spec, status map[string]any) { status["owner"] = spec["settings"].(map[string]any)["region"] },
	},
}

// run changes the status of a typed or unstructured object.
func (s step) run(obj client.Object) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		s.typed(obj.(v1.Object).Content())
		return
	}
	status, _ := u.Object["status"].(map[string]any)
	if status == nil {
		status = map[string]any{}
		u.Object["status"] = status
	}
	s.unstructured(u.Object["spec"].(map[string]any), status)
}

// role is the configuration of an operator process.
type role struct {
	variant

	Side      side
	Namespace string
	Plural    string // of the kind
	Workers   int
	Lean      bool   // the library has lean caches
	Profile   string // path of the CPU profile; empty disables profiles
}

// empty returns an empty object of the kind.
func (r role) empty() client.Object {
	if r.Unstructured {
		return kopf.Unstructured(v1.GroupVersion.WithKind(r.kind().name))
	}
	return r.kind().empty()
}

// addLibrary adds an operator with the library to the manager.
func addLibrary(o *operator) error {
	var options []kopf.Option
	if o.Lean {
		options = append(options, kopf.WithLeanCaches())
	}
	switch obj := o.empty().(type) {
	case *v1.Widget:
		options = append(options, handlers(obj, o))
	case *v1.Gadget:
		options = append(options, handlers(obj, o))
	default:
		options = append(options, handlers(obj.(*unstructured.Unstructured), o))
	}
	o.library = kopf.New(o, options...)
	return o.Add(o.library)
}

// handlers declares the operator with the library.
func handlers[T client.Object](obj T, o *operator) *kopf.Resource[T] {
	resource := kopf.For(obj, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: o.Workers}))
	for _, s := range steps[:o.Handlers] {
		resource.On(s.id, []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}, func(_ context.Context, req *kopf.Request[T]) error {
			s.run(req.Object)
			return nil
		})
	}
	if o.Finalizer {
		resource.OnDelete("drop", func(context.Context, *kopf.Request[T]) error { return nil })
	}
	if o.Interval > 0 {
		resource.Timer("timer", daemons.Timer{Interval: o.Interval}, func(_ context.Context, req *kopf.Request[T]) error {
			o.lateness.called(req.Object.GetName(), o.Interval)
			return nil
		}, kopf.InitialDelayFunc(func(obj client.Object) time.Duration { return o.lateness.first(obj.GetName(), o.Interval) }))
	}
	return resource
}

// annotation returns the name of the annotation with the essence that the operator of the side has handled.
func (s side) annotation() string {
	if s == plain || s == minimum {
		return essenceAnnotation
	}
	return progress.DefaultPrefix + "/last-handled-configuration"
}

// handled reports whether the operator of the side has written the status and the annotation for the present spec.
func (s side) handled(obj v1.Object) bool {
	spec, status := obj.Content()
	if status.Phase != "Ready" || status.Size != spec.Size {
		return false
	}
	var last struct{ Spec v1.Spec }
	text := obj.GetAnnotations()[s.annotation()]
	return json.Unmarshal([]byte(text), &last) == nil && last.Spec.Size == spec.Size
}
