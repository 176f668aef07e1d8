package kopftest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// newList returns an empty list for objects of the same form as obj: typed, unstructured, or only metadata.
func newList(obj client.Object, gvk schema.GroupVersionKind, scheme *runtime.Scheme) (client.ObjectList, error) {
	lists := gvk.GroupVersion().WithKind(gvk.Kind + "List")
	switch obj.(type) {
	case *unstructured.Unstructured:
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(lists)
		return list, nil
	case *metav1.PartialObjectMetadata:
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(lists)
		return list, nil
	}
	made, err := scheme.New(lists)
	if err != nil {
		return nil, fmt.Errorf("the scheme has no list type for kind %s: %w", gvk.Kind, err)
	}
	list, ok := made.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%T is not a list", made)
	}
	return list, nil
}

func hasFinalizer(obj client.Object, name string) bool {
	return slices.Contains(obj.GetFinalizers(), name)
}

// isPermanentError reports whether an error of a handler is permanent.
func isPermanentError(err error) bool {
	if errors.Is(err, reconcile.TerminalError(nil)) {
		return true
	}
	_, ok := errors.AsType[*progress.PermanentError](err)
	return ok
}

// isNotRegisteredError reports whether an error, or one that it wraps, means that the scheme lacks a Go type.
func isNotRegisteredError(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(joined.Unwrap(), isNotRegisteredError)
	}
	return err != nil && (runtime.IsNotRegisteredError(err) || isNotRegisteredError(errors.Unwrap(err)))
}

func newUnstructured(content map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: content}
}

// setContent sets an object from its JSON form.
func setContent(obj client.Object, content map[string]any) error {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		u.Object = runtime.DeepCopyJSON(content)
		return nil
	}
	fresh := reflect.New(reflect.TypeOf(obj).Elem())
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, fresh.Interface()); err != nil {
		return err
	}
	reflect.ValueOf(obj).Elem().Set(fresh.Elem())
	return nil
}
