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

// A Hook is one handler with the kind it is for and its options, whatever its type parameter was. It is
// declared with [Validating] or [Mutating], and served by a [Server].
type Hook struct {
	id       string
	kind     hookKind
	obj      client.Object
	handle   erased
	settings settings
	mistakes []error
	known    string // the kind, once there is a scheme
}

type hookKind string

const (
	validating hookKind = "validate"
	mutating   hookKind = "mutate"
)

// Validating declares a handler that says yes or no. The object names the kind: a pointer to a Go type of
// the scheme, or an unstructured or metadata-only object with its apiVersion and kind. The id names the
// handler, as in kopf: its path and its name in the configuration are made of it. Mistakes are told by
// [Server.Validate].
//
// kopf: @kopf.on.validate.
func Validating[T client.Object](obj T, id string, fn Handler[T], opts ...Option) Hook {
	return declare(validating, obj, id, fn, opts)
}

// Mutating declares a handler that may also change the object. See [Validating].
//
// kopf: @kopf.on.mutate.
func Mutating[T client.Object](obj T, id string, fn Handler[T], opts ...Option) Hook {
	return declare(mutating, obj, id, fn, opts)
}

func declare[T client.Object](kind hookKind, obj T, id string, fn Handler[T], opts []Option) Hook {
	h := Hook{id: id, kind: kind, handle: erase(fn)}
	if v := reflect.ValueOf(obj); v.Kind() == reflect.Pointer && !v.IsNil() {
		h.obj = obj
	} else {
		h.mistakef("the object is nil: give an empty one of the kind, such as &appsv1.Deployment{}")
	}
	if fn == nil {
		h.mistakef("the handler is nil: give it a function")
	}
	for _, opt := range opts {
		if opt != nil {
			opt(&h)
		}
	}
	return h
}

// ID is what the hook was declared with.
func (h Hook) ID() string { return h.id }

// Mutating reports whether the hook may change objects.
func (h Hook) Mutating() bool { return h.kind == mutating }

func (h *Hook) mistakef(format string, args ...any) {
	h.mistakes = append(h.mistakes, fmt.Errorf(format, args...))
}

// gvk is the kind that the hook is for.
func (h Hook) gvk(scheme *runtime.Scheme) (schema.GroupVersionKind, error) {
	gvk, err := apiutil.GVKForObject(h.obj, scheme)
	if err != nil {
		return gvk, fmt.Errorf("its kind is not known (add the Go type to the scheme, or set apiVersion and kind of an untyped object): %w", err)
	}
	return gvk, nil
}

// typed reports whether objects have to be of the kind to be decoded.
func (h Hook) typed() bool {
	switch h.obj.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata:
		return false
	default:
		return true
	}
}

// empty is an object to decode into.
func (h Hook) empty() client.Object {
	return reflect.New(reflect.TypeOf(h.obj).Elem()).Interface().(client.Object)
}

// where names the hook in an error, with its kind as far as that is known.
func (h Hook) where() string {
	name := fmt.Sprintf("%s(%q)", strings.ToUpper(string(h.kind[:1]))+string(h.kind[1:]), h.id)
	if kind := h.kindName(); kind != "" {
		return kind + ": " + name
	}
	return name
}

// kindName is what people call the kind. Without a scheme, it is the name of the Go type.
func (h Hook) kindName() string {
	switch {
	case h.known != "" || h.obj == nil:
		return h.known
	case h.typed():
		return reflect.TypeOf(h.obj).Elem().Name()
	default:
		return h.obj.GetObjectKind().GroupVersionKind().Kind
	}
}
