package children

import (
	"encoding/base64"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// intentOf returns the fields to apply: the child's, without those the API server sets. In a Go type, a nil pointer, map or list means that
// the field isn't set, so nulls are omitted. In an unstructured child, null is explicit.
func intentOf(c child) (*unstructured.Unstructured, error) {
	var content map[string]any
	if u, ok := c.Object.(*unstructured.Unstructured); ok {
		content = runtime.DeepCopyJSON(u.Object)
	} else {
		var err error
		if content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(c.Object); err != nil {
			return nil, fmt.Errorf("converting the child to JSON: %w", err)
		}
		dropNulls(content)
	}
	delete(content, "status")
	if meta, ok := content["metadata"].(map[string]any); ok {
		for _, name := range []string{
			"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generateName", "generation",
			"managedFields", "resourceVersion", "selfLink", "uid",
		} {
			delete(meta, name)
		}
	}
	if c.gvk.Group == "" && c.gvk.Kind == "Secret" {
		encodeStringData(content)
	}
	intent := &unstructured.Unstructured{Object: content}
	intent.SetGroupVersionKind(c.gvk)
	return intent, nil
}

func dropNulls(content map[string]any) {
	for key, value := range content {
		switch value := value.(type) {
		case nil:
			delete(content, key)
		case map[string]any:
			dropNulls(value)
		case []any:
			for _, item := range value {
				if item, ok := item.(map[string]any); ok {
					dropNulls(item)
				}
			}
		}
	}
}

// encodeStringData moves stringData to data, as the API server does, because we can't compare a field that is never stored.
func encodeStringData(content map[string]any) {
	texts, ok := content["stringData"].(map[string]any)
	if !ok {
		return
	}
	data, _ := content["data"].(map[string]any)
	if data == nil {
		data = map[string]any{}
	}
	for key, value := range texts {
		text, ok := value.(string)
		if !ok {
			return // not a string: the API server rejects it with a clear error
		}
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	content["data"] = data
	delete(content, "stringData")
}

func newLike(obj client.Object) client.Object {
	return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
}
