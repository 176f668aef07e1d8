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

// Content returns the JSON form of an object. For an unstructured object it is the content of the object, not a copy. For a Go
// type it contains no managed fields, because their conversion is expensive and the engine does not use them.
func Content(obj client.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(withoutManagedFields(obj))
}

// withoutManagedFields returns the object. If it has managed fields, it returns a shallow copy without them. It does not change the object.
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

// JSONTypedContent returns a copy of the JSON form of an object with the types of decoded JSON. For example, it converts an int of a handler to an
// int64, and a []string to a []any. It fails for values that are not valid JSON.
func JSONTypedContent(obj client.Object) (map[string]any, error) {
	content, err := Content(obj)
	if err != nil {
		return nil, err
	}
	normal, err := normalize(content)
	if err != nil {
		return nil, err
	}
	return normal.(map[string]any), nil
}

func normalize(value any) (any, error) {
	var err error
	switch v := value.(type) {
	case nil, string, bool, int64, float64:
		return v, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			if out[key], err = normalize(inner); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			if out[i], err = normalize(inner); err != nil {
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

// FromContent sets an object from its JSON form. It does not change the JSON form.
func FromContent(content map[string]any, into client.Object) error {
	if u, ok := into.(*unstructured.Unstructured); ok {
		u.Object = runtime.DeepCopyJSON(content)
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(content, into)
}
