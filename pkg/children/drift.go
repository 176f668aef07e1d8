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

// appliedKey is the annotation with the hash of what was applied. Each field owner has its own.
func (o *Owner) appliedKey() string {
	const name = "applied."
	return "kopf-runtime.dev/" + name + dnsLabel(o.fieldOwner, maxName-len(name))
}

// settled reports whether an apply would change nothing. The hash tells whether the intent is the one that was
// applied last; then its fields are as they were if they are still ours, for the server takes a field away from
// its owner when somebody else changes it. Values are compared only where nothing is known of owners: the server
// writes many of them in another form than they had, such as quantities.
func (o *Owner) settled(intent *unstructured.Unstructured, live client.Object) (bool, error) {
	key := o.appliedKey()
	if live.GetAnnotations()[key] != intent.GetAnnotations()[key] {
		return false, nil
	}
	content, err := contentOf(live)
	if err != nil {
		return false, err
	}
	wanted := maps.Clone(intent.Object) // Go types come without these two
	delete(wanted, "apiVersion")
	delete(wanted, "kind")
	return holds(wanted, content, ownedFields(live.GetManagedFields(), o.fieldOwner, intent.GetAPIVersion())), nil
}

func contentOf(obj client.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("what the server has cannot be compared: %w", err)
	}
	return content, nil
}

// ownedFields are the fields that were applied by the owner and are still its own, in the form of FieldsV1.
func ownedFields(managed []metav1.ManagedFieldsEntry, owner, apiVersion string) (fields map[string]any) {
	for _, entry := range managed {
		if entry.Manager == owner && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" &&
			entry.APIVersion == apiVersion && entry.FieldsV1 != nil {
			_ = json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) // what cannot be read is not known
		}
	}
	return fields
}

// holds reports whether each value of the intent is in fields that are ours, or as it should be all the same. Fields
// are nil where nothing is ours, and empty where all below is.
func holds(intent, live any, fields map[string]any) bool {
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
			if !holds(value, live[name], below) {
				return false
			}
		}
		return true
	case []any:
		live, _ := live.([]any)
		if fields == nil {
			return sameList(intent, live)
		}
		for _, item := range intent {
			if !holdsItem(item, live, fields) {
				return false
			}
		}
		return true
	default:
		return same(intent, live)
	}
}

// holdsItem looks for an item of a list by its keys ("k:"), or for the value of a set ("v:").
func holdsItem(item any, live []any, fields map[string]any) bool {
	for name, below := range fields {
		kind, text, _ := strings.Cut(name, ":")
		below, _ := below.(map[string]any)
		var key any
		if (kind != "k" && kind != "v") || json.Unmarshal([]byte(text), &key) != nil {
			continue
		}
		if kind == "v" && same(item, key) {
			return true
		}
		keys, isMap := key.(map[string]any)
		if kind == "k" && isMap && keyed(item, keys, true) {
			for _, other := range live {
				if keyed(other, keys, false) {
					return holds(item, other, below)
				}
			}
		}
	}
	return false
}

// keyed reports whether the item has the keys; those that it leaves to the server's defaults may be missing.
func keyed(item any, keys map[string]any, missing bool) bool {
	content, ok := item.(map[string]any)
	if !ok {
		return false
	}
	for name, value := range keys {
		if has, ok := content[name]; ok && !same(has, value) || !ok && !missing {
			return false
		}
	}
	return true
}

func sameList(intent, live []any) bool {
	if len(intent) != len(live) {
		return false
	}
	for i, item := range intent {
		if !holds(item, live[i], nil) {
			return false
		}
	}
	return true
}

// same compares scalars; numbers are those of JSON, whatever type they have here.
func same(a, b any) bool {
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
