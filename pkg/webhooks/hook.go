package webhooks

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Hook combines one handler with its kind and options, independent of the handler's type parameter. [Validating] and [Mutating] create
// hooks, and a [Server] serves them.
type Hook struct {
	id         string
	kind       hookKind
	obj        client.Object
	handle     untypedHandler
	settings   settings
	errs       []error
	schemeKind string // kind according to the scheme; empty until the scheme is known
}

type hookKind string

const (
	validating hookKind = "validate"
	mutating   hookKind = "mutate"
)

// Validating creates a hook whose handler allows or denies requests. obj selects the kind: pass a pointer to an empty object whose type is
// registered in the scheme, or an unstructured or metadata-only object with apiVersion and kind. The id identifies the handler, as in kopf.
// The hook's path and its name in the configuration are derived from it. [Server.Check] reports invalid arguments.
//
// Equivalent in kopf: @kopf.on.validate.
func Validating[T client.Object](obj T, id string, fn Handler[T], opts ...Option) Hook {
	return newHook(validating, obj, id, fn, opts)
}

// Mutating creates a hook whose handler can also change the object. See [Validating].
//
// Equivalent in kopf: @kopf.on.mutate.
func Mutating[T client.Object](obj T, id string, fn Handler[T], opts ...Option) Hook {
	return newHook(mutating, obj, id, fn, opts)
}

func newHook[T client.Object](kind hookKind, obj T, id string, fn Handler[T], opts []Option) Hook {
	h := Hook{id: id, kind: kind, handle: withoutType(fn)}
	if v := reflect.ValueOf(obj); v.Kind() == reflect.Pointer && !v.IsNil() {
		h.obj = obj
	} else {
		h.addErrorf("the object is nil: pass an empty object of the kind, such as &appsv1.Deployment{}")
	}
	if fn == nil {
		h.addErrorf("the handler is nil: pass a function")
	}
	for _, opt := range opts {
		if opt != nil {
			opt(&h)
		}
	}
	return h
}

// ID returns the id of the handler.
func (h Hook) ID() string { return h.id }

// Mutating reports whether the handler can change objects.
func (h Hook) Mutating() bool { return h.kind == mutating }

func (h *Hook) addErrorf(format string, args ...any) {
	h.errs = append(h.errs, fmt.Errorf(format, args...))
}

func (h Hook) gvk(scheme *runtime.Scheme) (schema.GroupVersionKind, error) {
	gvk, err := apiutil.GVKForObject(h.obj, scheme)
	if err != nil {
		return gvk, fmt.Errorf("its kind is unknown (add the Go type to the scheme, or set apiVersion and kind of an untyped object): %w", err)
	}
	return gvk, nil
}

// isTyped reports whether only objects of the hook's own kind can be decoded.
func (h Hook) isTyped() bool {
	switch h.obj.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata:
		return false
	default:
		return true
	}
}

// newObject returns an empty object to decode into.
func (h Hook) newObject() client.Object {
	return reflect.New(reflect.TypeOf(h.obj).Elem()).Interface().(client.Object)
}

// describe names the hook in errors, with the kind of its objects if known.
func (h Hook) describe() string {
	name := fmt.Sprintf("%s(%q)", strings.ToUpper(string(h.kind[:1]))+string(h.kind[1:]), h.id)
	if kind := h.displayKind(); kind != "" {
		return kind + ": " + name
	}
	return name
}

// displayKind returns the kind for error messages. Before the scheme is known, it uses the name of the Go type instead.
func (h Hook) displayKind() string {
	switch {
	case h.schemeKind != "" || h.obj == nil:
		return h.schemeKind
	case h.isTyped():
		return reflect.TypeOf(h.obj).Elem().Name()
	default:
		return h.obj.GetObjectKind().GroupVersionKind().Kind
	}
}
