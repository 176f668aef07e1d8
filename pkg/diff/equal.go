package diff

import "reflect"

// Equal reports whether two values are the same as far as [Of] is concerned:
// it is true exactly when Of(a, b) is empty. It stops at the first difference,
// and it allocates nothing for equal JSON-shaped values, which makes it the
// cheaper question when the differences themselves are not needed.
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
	// Unlike ==, this does not panic on foreign types which are not comparable.
	return reflect.DeepEqual(a, b)
}

func equalMaps(a, b map[string]any) bool {
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
	// The usual end: every key of b has been met already. Different lengths
	// prove nothing on their own, as keys holding null do not count.
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

// isNull tells which values count as absent. A nil map or slice wrapped into an
// interface is not a nil interface, but it is null in JSON; and an old state
// declared as a map and never assigned must look like no old state.
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
