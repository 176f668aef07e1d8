package patch

import (
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Content returns the JSON form of an object: that of an unstructured one is its own, not a copy. That of a
// Go type comes without its managed fields: nobody here needs them, and converting them takes most of the time.
func Content(obj client.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(withoutManagedFields(obj))
}

// withoutManagedFields returns a shallow copy, if there are any: the object is not ours to change.
func withoutManagedFields(obj client.Object) client.Object {
	if len(obj.GetManagedFields()) == 0 {
		return obj
	}
	shallow := reflect.New(reflect.TypeOf(obj).Elem())
	shallow.Elem().Set(reflect.ValueOf(obj).Elem())
	copied := shallow.Interface().(client.Object)
	copied.SetManagedFields(nil)
	return copied
}

// Normal returns the JSON form of an object in the types that decoding gives, whatever a handler has
// put into it: an int becomes an int64, a []string a []any. It is a copy.
func Normal(obj client.Object) (map[string]any, error) {
	content, err := Content(obj)
	if err != nil {
		return nil, err
	}
	normal, err := normalized(content)
	if err != nil {
		return nil, err
	}
	return normal.(map[string]any), nil
}

func normalized(value any) (any, error) {
	var err error
	switch v := value.(type) {
	case nil, string, bool, int64, float64:
		return v, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			if out[key], err = normalized(inner); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			if out[i], err = normalized(inner); err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return out, nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var out any
	if err := utiljson.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	return out, nil
}

// Revive makes an object of its JSON form, which stays untouched.
func Revive(content map[string]any, into client.Object) error {
	if u, ok := into.(*unstructured.Unstructured); ok {
		u.Object = runtime.DeepCopyJSON(content)
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(content, into)
}
