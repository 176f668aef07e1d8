package diff

import "reflect"

// Equal reports whether [Of] would return no differences. Equal is faster than Of: it stops at the first difference and
// does not allocate memory for equal JSON values.
func Equal(a, b any) bool {
	if isNull(a) || isNull(b) {
		return isNull(a) && isNull(b)
	}
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && equalMaps(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && equalLists(a, b)
	case string:
		b, ok := b.(string)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	}
	if x, ok := numberOf(a); ok {
		y, ok := numberOf(b)
		return ok && x.equal(y)
	}
	// Unlike ==, DeepEqual does not panic on types that are not comparable.
	return reflect.DeepEqual(a, b)
}

func equalMaps(a, b map[string]any) bool {
	if reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() {
		return true // JSON forms of one object share the fields that have not changed
	}
	shared := 0
	for key, value := range a {
		other, ok := b[key]
		if !Equal(value, other) {
			return false
		}
		if ok {
			shared++
		}
	}
	// In the usual case, every key of b was compared. Different lengths are not a difference, because Equal ignores
	// keys with the value null.
	if shared == len(b) {
		return true
	}
	for key, value := range b {
		if _, ok := a[key]; !ok && !isNull(value) {
			return false
		}
	}
	return true
}

func equalLists(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// isNull reports whether Equal treats a value as absent. A nil map or slice in an interface is not a nil interface, but
// it is null in JSON.
func isNull(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		return value == nil
	case []any:
		return value == nil
	default:
		return false
	}
}
