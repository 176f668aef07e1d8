package children

import (
	"maps"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/internal/annotations"
)

// dropCopied removes, at any depth, annotations of operators and of kubectl apply that a child got from its owner, because many operators
// copy all annotations to the child and its pod template. An annotation counts as copied if the owner has the same value. Existing children
// of the owner's kind are left alone, because they can have the same last-handled configuration without copying it.
func (o *Owner) dropCopied(c child, owner schema.GroupKind) {
	fromOwner := o.obj.GetAnnotations()
	isState := func(key string) bool { return key == annotations.LastApplied || annotations.IsManaged(key, fromOwner) }
	isNew := c.GetUID() == ""
	if len(annotations.OfUsers(fromOwner)) == len(fromOwner) || !isNew && c.gvk.GroupKind() == owner {
		return
	}
	drop := func(found map[string]string) map[string]string {
		kept := maps.Clone(found) // the child can share the map with the owner
		maps.DeleteFunc(kept, func(key, value string) bool {
			original, ok := fromOwner[key]
			return ok && value == original && isState(key) && (isNew || !annotations.IsMarker(key))
		})
		// An existing child can have its own marker, for its own state.
		maps.DeleteFunc(kept, func(key, _ string) bool {
			_, ok := fromOwner[key]
			return ok && annotations.IsMarker(key) && !hasOtherWithPrefix(kept, key)
		})
		return kept
	}
	if u, ok := c.Object.(*unstructured.Unstructured); ok {
		changeAnnotations(u.Object, drop)
		return
	}
	changeTypedAnnotations(reflect.ValueOf(c.Object), drop)
}

// hasOtherWithPrefix reports whether any other annotation has the same prefix.
func hasOtherWithPrefix(all map[string]string, key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	for other := range all {
		if other != key && strings.HasPrefix(other, prefix+"/") {
			return true
		}
	}
	return false
}

// changeAnnotations changes every string map called "annotations" in a JSON value.
func changeAnnotations(value any, change func(map[string]string) map[string]string) {
	switch value := value.(type) {
	case map[string]any:
		if found, ok, err := unstructured.NestedStringMap(value, "annotations"); ok && err == nil {
			if changed := change(found); len(changed) < len(found) {
				setAnnotations(value, changed)
			}
		}
		for _, inner := range value {
			changeAnnotations(inner, change)
		}
	case []any:
		for _, item := range value {
			changeAnnotations(item, change)
		}
	}
}

func setAnnotations(content map[string]any, changed map[string]string) {
	delete(content, "annotations")
	if len(changed) > 0 {
		_ = unstructured.SetNestedStringMap(content, changed, "annotations") // the content is a map
	}
}

// changeTypedAnnotations changes every string map whose JSON name is "annotations".
func changeTypedAnnotations(v reflect.Value, change func(map[string]string) map[string]string) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			changeTypedAnnotations(v.Elem(), change)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			changeTypedAnnotations(v.Index(i), change)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			found, ok := reflect.TypeAssert[map[string]string](v.Field(i))
			if name != "annotations" || !ok {
				changeTypedAnnotations(v.Field(i), change)
				continue
			}
			changed := change(found)
			if len(changed) == 0 {
				changed = nil
			}
			if len(changed) < len(found) {
				v.Field(i).Set(reflect.ValueOf(changed))
			}
		}
	default:
	}
}
