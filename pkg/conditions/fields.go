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

// Fields are the conditions as one object has them. What they have beyond a [metav1.Condition] is left alone.
type Fields interface {
	// List returns the conditions in a stable order. What is no condition is left out.
	List() []metav1.Condition
	// Put changes the condition of the same type, or adds it. It is only called with something new.
	Put(c metav1.Condition)
	// Remove removes the conditions of the type, if there are any.
	Remove(conditionType string)
}

// An Adapter finds the conditions of an object, for shapes that this package does not know.
type Adapter func(obj client.Object) (Fields, error)

// accessors are what types with conditions often have.
type accessors interface {
	GetConditions() []metav1.Condition
	SetConditions(conditions []metav1.Condition)
}

var usualPath = []string{"status", "conditions"}

func (o options) fields(obj client.Object) (Fields, error) {
	if isNil(obj) {
		return nil, errors.New("the object is nil")
	}
	if o.adapter != nil {
		return o.adapter(obj)
	}
	path := o.path
	if path == nil {
		path = usualPath
	}
	if slices.Contains(path, "") {
		return nil, fmt.Errorf("%q is no path: name fields as in status.conditions", strings.Join(path, "."))
	}
	switch obj := obj.(type) {
	case *unstructured.Unstructured:
		return unstructuredFields(obj, path, o.asMap)
	case *metav1.PartialObjectMetadata:
		return nil, errors.New("the object is metadata only, which has no status: read it as unstructured")
	}
	if accessors, ok := obj.(accessors); ok && o.path == nil {
		return accessed{accessors}, nil
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

// accessed are conditions behind accessors. Whether those copy is not known, so a copy is changed.
type accessed struct{ accessors }

func (a accessed) List() []metav1.Condition { return slices.Clone(a.GetConditions()) }

func (a accessed) Put(c metav1.Condition) {
	conditions := slices.Clone(a.GetConditions())
	put(&conditions, c)
	a.SetConditions(conditions)
}

func (a accessed) Remove(conditionType string) {
	conditions := slices.Clone(a.GetConditions())
	if meta.RemoveStatusCondition(&conditions, conditionType) {
		a.SetConditions(conditions)
	}
}

func put(conditions *[]metav1.Condition, c metav1.Condition) {
	meta.SetStatusCondition(conditions, c)
	meta.FindStatusCondition(*conditions, c.Type).LastTransitionTime = c.LastTransitionTime // if it was missing
}
