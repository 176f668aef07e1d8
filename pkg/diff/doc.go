// Package diff computes the differences between two JSON values, for example between two versions of an object. It can also reduce a diff
// to a single field:
//
//	old := map[string]any{"spec": map[string]any{"size": 1, "tier": "free"}}
//	now := map[string]any{"spec": map[string]any{"size": 2, "zone": "b"}}
//
//	changes := diff.Of(old, now)
//	for _, item := range changes {
//		fmt.Println(item) // "add spec.zone: ...", "remove spec.tier: ...", ...
//	}
//	if d := changes.Reduce("spec", "size"); !d.Empty() {
//		resize(d[0].Old, d[0].New) // 1, 2; the path is relative to the field, so it is empty
//	}
//
// # Concepts
//
// [Of] compares two values. It descends into maps and compares all other values as a whole with [Equal]. Each difference is an [Item].
// [Diff.Reduce] returns the diff of one field. [Lookup] returns the value of a field.
//
// # Guarantees
//
//   - Of(a, b) is empty if and only if Equal(a, b) is true. Applying its items to a gives a value equal to b. Of(a, b).Reduce(p...) is the
//     same as Of applied to the values of a and b at p.
//   - The order of the items is deterministic. Within one map, added keys come first, then removed keys, then changed keys. Each group is
//     sorted by key.
//   - Null means absent: a key with the value nil, a nil map or a nil slice. An empty map or list is a value.
//   - Numbers are compared by value across all Go types without rounding, so an integer beyond 2^53 doesn't equal the nearest float.
//     Booleans equal only booleans.
//   - The comparison is symmetric and transitive. NaN doesn't equal anything, including NaN.
//   - All functions are safe for concurrent use as long as the values don't change. They don't modify their arguments.
//
// # Requirements
//
// Values must have the types of a JSON or YAML decoder: nil, bool, string, map[string]any, []any, [encoding/json.Number], or any
// predeclared integer or floating-point type. They must not contain cycles.
//
// # Caveats
//
//   - A diff shares values with the inputs. Copy the inputs if they will be modified while the diff is in use.
//   - Values of other types, such as map[string]string, structs or pointers, are compared with [reflect.DeepEqual], so they never equal a
//     value of a different type.
//   - A json.Number with integer syntax is an exact integer of any size. With a fraction or an exponent, it is the nearest float64, which
//     may be infinite. So "9007199254740993.0" is 2^53. Invalid text doesn't equal anything, like NaN.
//   - Lists are compared as a whole, so a path never leads to a list element.
//   - The text of a path is ambiguous if keys contain dots. Compare paths by their elements.
//   - The texts of items and diffs contain the complete values, including secrets.
package diff
