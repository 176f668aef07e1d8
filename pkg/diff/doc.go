// Package diff tells how one JSON-shaped value became another, and narrows
// that answer down to a single field. Handlers are given such diffs to see what
// changed in their object; the runtime uses the same comparison to decide
// whether anything changed at all.
//
//	old := map[string]any{"spec": map[string]any{"size": 1, "tier": "free"}}
//	now := map[string]any{"spec": map[string]any{"size": 2, "zone": "b"}}
//
//	changes := diff.Of(old, now)
//	for _, item := range changes {
//		fmt.Println(item) // "add spec.zone: ...", "remove spec.tier: ...", ...
//	}
//	if d := changes.Reduce("spec", "size"); !d.Empty() {
//		resize(d[0].Old, d[0].New) // 1, 2; the path is now relative, hence empty
//	}
//
// # Flow
//
// [Of] walks both values side by side. It descends only where both sides are
// maps; anything else is compared as a whole, by [Equal]. Whatever differs
// becomes an [Item]. [Diff.Reduce] re-reads a finished diff from the point of
// view of one field, as if only the values of that field ([Lookup]) had been
// compared.
//
// # Guarantees
//
// Of(a, b) is empty exactly when Equal(a, b) is true. Writing the items of
// Of(a, b) over a gives a value equal to b. Of(a, b).Reduce(p...) is the same as
// Of applied to the values which a and b have at p.
//
// Within one map, added keys come first, then removed ones, then those present
// on both sides; each group is sorted by key. The same inputs hence give the
// same items in the same order, every time.
//
// Null is absence: a key holding nil is the same as no key, and so are the nil
// map and the nil slice, which are written as null too. An empty map or an empty
// list is a value and is not absent. Numbers compare by numeric value across
// all Go types without rounding, so an integer beyond 2^53 does not equal the
// float next to it; NaN equals nothing. Booleans equal only booleans. The
// relation is symmetric and transitive. Only NaN breaks reflexivity, and with it
// the equality promised above for writing the items.
//
// Nothing here modifies its arguments or its receiver, keeps state, or starts
// goroutines. All functions are safe for concurrent use as long as nobody
// modifies the values meanwhile.
//
// # Assumptions
//
// Values are what a JSON or YAML decoder puts into an any: nil, bool, string,
// map[string]any, []any, [encoding/json.Number], or any predeclared integer or
// floating-point type. They contain no cycles: a cyclic value never ends.
//
// # Caveats
//
// A diff copies no values: its items alias the inputs. Treat both as read-only,
// and copy the inputs first if they are going to be modified while the diff is
// in use.
//
// Values of any other type, such as map[string]string, structs, pointers or
// named types, are opaque: never descended into, and compared by
// [reflect.DeepEqual], thus always unequal to a value of a different type.
//
// A json.Number is read the way decoders read it: integer syntax is an integer
// of any size, exactly; a fraction or an exponent makes it the nearest float64,
// be it infinite. So "0.1" equals the float64 0.1, and "9007199254740993.0" is
// 2^53. Text that is no JSON number equals nothing, like NaN.
//
// Lists are never descended into, so no path leads to a list element. A path
// printed as text is ambiguous if its keys contain dots; compare paths by their
// elements. The texts of items and diffs contain the values in full, secrets
// included.
//
// # Errors
//
// There are none, and values of unexpected types do not panic. A field that
// leads nowhere is an absent value, and its diff is empty.
package diff
