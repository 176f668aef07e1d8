package conditions

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Fields gives access to the conditions of one object. Implementations must preserve data that doesn't fit into a [metav1.Condition].
type Fields interface {
	// List returns the conditions in a stable order, without invalid entries.
	List() []metav1.Condition
	// Put adds the condition or replaces the one of the same type. The Set calls it only with changed conditions.
	Put(c metav1.Condition)
	// Remove removes all conditions of the type.
	Remove(conditionType string)
}

// An Adapter gives access to conditions in a shape that this package doesn't support.
type Adapter func(obj client.Object) (Fields, error)

// accessors are the methods that many types with conditions have.
type accessors interface {
	GetConditions() []metav1.Condition
	SetConditions(conditions []metav1.Condition)
}

var standardPath = []string{"status", "conditions"}

func (o options) fields(obj client.Object) (Fields, error) {
	if isNil(obj) {
		return nil, errors.New("object is nil")
	}
	if o.adapter != nil {
		return o.adapter(obj)
	}
	path := o.path
	if path == nil {
		path = standardPath
	}
	if slices.Contains(path, "") {
		return nil, fmt.Errorf("invalid path %q: use field names such as status.conditions", strings.Join(path, "."))
	}
	switch obj := obj.(type) {
	case *unstructured.Unstructured:
		return unstructuredFields(obj, path, o.asMap)
	case *metav1.PartialObjectMetadata:
		return nil, errors.New("object contains only metadata and has no status: read it as unstructured")
	}
	if accessors, ok := obj.(accessors); ok && o.path == nil {
		return accessorFields{accessors}, nil
	}
	return typedFields(obj, path)
}

func isNil(obj client.Object) bool {
	if obj == nil {
		return true
	}
	v := reflect.ValueOf(obj)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// accessorFields uses the methods of a Go type. It copies the conditions, because the methods may return them without a copy.
type accessorFields struct{ accessors }

func (a accessorFields) List() []metav1.Condition { return slices.Clone(a.GetConditions()) }

func (a accessorFields) Put(c metav1.Condition) {
	conditions := slices.Clone(a.GetConditions())
	put(&conditions, c)
	a.SetConditions(conditions)
}

func (a accessorFields) Remove(conditionType string) {
	conditions := slices.Clone(a.GetConditions())
	if meta.RemoveStatusCondition(&conditions, conditionType) {
		a.SetConditions(conditions)
	}
}

func put(conditions *[]metav1.Condition, c metav1.Condition) {
	meta.SetStatusCondition(conditions, c)
	meta.FindStatusCondition(*conditions, c.Type).LastTransitionTime = c.LastTransitionTime // SetStatusCondition keeps an old one
}
