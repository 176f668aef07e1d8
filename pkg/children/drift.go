package children

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// appliedKey returns the annotation key for the applied hash. Each field owner has its own.
func (o *Owner) appliedKey() string {
	const name = "applied."
	return "kopf-runtime.dev/" + name + dnsLabel(o.fieldOwner, maxName-len(name))
}

// isApplied reports whether an apply would change nothing. If the stored hash matches, we can trust every field that the field owner still
// owns, because another manager's change would have cost it the field. So isApplied compares only the values of the other fields. It can't
// compare all of them, because the API server normalizes many values, such as quantities.
func (o *Owner) isApplied(intent *unstructured.Unstructured, live client.Object) (bool, error) {
	key := o.appliedKey()
	if live.GetAnnotations()[key] != intent.GetAnnotations()[key] {
		return false, nil
	}
	content, err := contentOf(live)
	if err != nil {
		return false, err
	}
	wanted := maps.Clone(intent.Object) // typed objects have neither apiVersion nor kind
	delete(wanted, "apiVersion")
	delete(wanted, "kind")
	return isSatisfied(wanted, content, ownedFields(live.GetManagedFields(), o.fieldOwner, intent.GetAPIVersion())), nil
}

func contentOf(obj client.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("converting the live object: %w", err)
	}
	return content, nil
}

// ownedFields returns the fields that the field owner applied and still owns, in the format of FieldsV1.
func ownedFields(managed []metav1.ManagedFieldsEntry, owner, apiVersion string) (fields map[string]any) {
	for _, entry := range managed {
		if entry.Manager == owner && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" &&
			entry.APIVersion == apiVersion && entry.FieldsV1 != nil {
			_ = json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) // unreadable fields count as not owned
		}
	}
	return fields
}

// isSatisfied reports whether each value of the intent is owned or equal to the live value. fields is nil if nothing is owned, and empty if
// the whole value is.
func isSatisfied(intent, live any, fields map[string]any) bool {
	if fields != nil && len(fields) == 0 {
		return true
	}
	switch intent := intent.(type) {
	case map[string]any:
		live, ok := live.(map[string]any)
		if !ok {
			return false
		}
		for name, value := range intent {
			below, _ := fields["f:"+name].(map[string]any)
			if !isSatisfied(value, live[name], below) {
				return false
			}
		}
		return true
	case []any:
		live, _ := live.([]any)
		if fields == nil {
			return equalLists(intent, live)
		}
		for _, item := range intent {
			if !isItemSatisfied(item, live, fields) {
				return false
			}
		}
		return true
	default:
		return equal(intent, live)
	}
}

// isItemSatisfied reports whether a list item is owned or equal to a live item. fields has the keys of owned items ("k:") and the owned
// values of a set ("v:").
func isItemSatisfied(item any, live []any, fields map[string]any) bool {
	for name, below := range fields {
		kind, text, _ := strings.Cut(name, ":")
		below, _ := below.(map[string]any)
		var key any
		if (kind != "k" && kind != "v") || json.Unmarshal([]byte(text), &key) != nil {
			continue
		}
		if kind == "v" && equal(item, key) {
			return true
		}
		keys, isMap := key.(map[string]any)
		if kind == "k" && isMap && hasKeys(item, keys, true) {
			for _, other := range live {
				if hasKeys(other, keys, false) {
					return isSatisfied(item, other, below)
				}
			}
		}
	}
	return false
}

// hasKeys reports whether the item has the given keys. If missing is true, they can be absent, because the server sets their defaults.
func hasKeys(item any, keys map[string]any, missing bool) bool {
	content, ok := item.(map[string]any)
	if !ok {
		return false
	}
	for name, value := range keys {
		if has, ok := content[name]; ok && !equal(has, value) || !ok && !missing {
			return false
		}
	}
	return true
}

func equalLists(intent, live []any) bool {
	if len(intent) != len(live) {
		return false
	}
	for i, item := range intent {
		if !isSatisfied(item, live[i], nil) {
			return false
		}
	}
	return true
}

// equal compares scalars. Numbers can be equal even if their Go types differ.
func equal(a, b any) bool {
	x, isNumber := number(a)
	y, isNumberToo := number(b)
	if isNumber && isNumberToo {
		return x == y
	}
	return reflect.DeepEqual(a, b)
}

func number(value any) (float64, bool) {
	switch v := value.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
