package diff_test

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// Many pairs of the scalars are equal or almost equal across types.
var scalars = []any{
	nil, map[string]any(nil), []any(nil),
	true, false, "", "1", "true",
	0, 1, int8(1), uint16(1), float32(1), 1.0, 1.5, math.Copysign(0, -1),
	int64(1 << 53), int64(1<<53 + 1), float64(1 << 53),
	int64(math.MinInt64), int64(math.MaxInt64), uint64(1 << 63), float64(1 << 63), -float64(1 << 63),
	uint64(math.MaxUint64), float64(1 << 64), math.Inf(1), math.NaN(),
	json.Number("0"), json.Number("1"), json.Number("1.0"), json.Number("1.5"),
	json.Number("9007199254740993"), json.Number("18446744073709551616"),
	json.Number("-9223372036854775808"), json.Number("1e999"), json.Number("junk"),
}

// The few keys cause frequent collisions. One key looks like a path of two others.
var keys = []string{"a", "b", "c", "a.b", ""}

// source converts fuzzed bytes into decisions. When it is exhausted, it returns nulls, so that every input is a value
// and small inputs are small values.
type source []byte

func (s *source) next() int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b)
}

func (s *source) value(depth int) any {
	choice := s.next()
	switch {
	case choice >= 128 && depth > 0:
		object := map[string]any{}
		for range choice % 6 {
			object[keys[s.next()%len(keys)]] = s.value(depth - 1)
		}
		return object
	case choice >= 100 && depth > 0:
		list := []any{}
		for range choice % 4 {
			list = append(list, s.value(depth-1))
		}
		return list
	default:
		return scalars[choice%len(scalars)]
	}
}

func (s *source) path() []string {
	var path []string
	for range s.next() % 4 {
		path = append(path, keys[s.next()%len(keys)])
	}
	return path
}

func FuzzOf(f *testing.F) {
	f.Add([]byte{}, []byte{8})
	f.Add([]byte{130, 0, 8, 1, 16}, []byte{130, 0, 13, 1, 17})
	f.Add([]byte{129, 0, 129, 1, 9}, []byte{129, 0, 6})
	f.Add([]byte{129, 0, 128}, []byte{128})
	f.Add([]byte{101, 27}, []byte{101, 27})
	f.Add([]byte{131, 0, 131, 0, 8, 1, 9, 2, 0, 3, 8, 1, 5}, []byte{131, 0, 131, 0, 9, 2, 8, 1, 8, 3, 9, 4, 9})
	f.Fuzz(func(t *testing.T, oldBytes, newBytes []byte) {
		oldValue, newValue := (*source)(&oldBytes).value(4), (*source)(&newBytes).value(4)
		items := diff.Of(oldValue, newValue)

		if equal := diff.Equal(oldValue, newValue); equal != items.Empty() {
			t.Fatalf("Equal() = %v, but Of() = %v", equal, items)
		}
		if diff.Equal(oldValue, newValue) != diff.Equal(newValue, oldValue) {
			t.Fatal("Equal() returns different results for (a, b) and (b, a)")
		}
		if got := diff.Of(newValue, oldValue); len(got) != len(items) {
			t.Fatalf("the reverse diff of\n%v\nhas a different number of items:\n%v", items, got)
		}
		checkItems(t, items)

		// NaN equals nothing, including itself.
		if diff.Equal(oldValue, oldValue) && diff.Equal(newValue, newValue) {
			if got := apply(oldValue, items); !diff.Equal(got, newValue) {
				t.Fatalf("applying the diff to %#v:\n%v\ngot:  %#v\nwant: %#v", oldValue, items, got, newValue)
			}
		}
	})
}

func FuzzReduce(f *testing.F) {
	f.Add([]byte{}, []byte{129, 0, 129, 1, 9}, []byte{2, 0, 1})
	f.Add([]byte{129, 0, 129, 1, 129, 2, 8}, []byte{129, 0, 6}, []byte{3, 0, 1, 2})
	f.Add([]byte{130, 0, 8, 1, 8}, []byte{130, 0, 9, 1, 9}, []byte{1, 0})
	f.Add([]byte{129, 0, 129, 0, 8}, []byte{129, 0, 129, 0, 9}, []byte{0})
	f.Fuzz(func(t *testing.T, oldBytes, newBytes, pathBytes []byte) {
		oldValue, newValue := (*source)(&oldBytes).value(4), (*source)(&newBytes).value(4)
		path := (*source)(&pathBytes).path()

		got := diff.Of(oldValue, newValue).Reduce(path...)
		checkItems(t, got)

		oldField, _ := diff.Lookup(oldValue, path...)
		newField, _ := diff.Lookup(newValue, path...)
		want := diff.Of(oldField, newField)
		if d := cmp.Diff(want, got, cmpopts.EquateNaNs()); d != "" {
			t.Fatalf("reduced to %q (-want +got):\n%s", path, d)
		}
	})
}

// checkItems verifies the properties of the items of any diff.
func checkItems(t *testing.T, items diff.Diff) {
	t.Helper()
	for i, item := range items {
		wantOld, wantNew := item.Op != diff.Add, item.Op != diff.Remove
		if (item.Old != nil) != wantOld || (item.New != nil) != wantNew {
			t.Fatalf("DIFF-02: invalid old or new value: %v", item)
		}
		for _, other := range items[:i] {
			shorter := min(len(item.Path), len(other.Path))
			if slices.Equal(item.Path[:shorter], other.Path[:shorter]) {
				t.Fatalf("overlapping items: %v, %v", other, item)
			}
		}
	}
}

// apply returns a copy of the old value with the new values.
func apply(value any, items diff.Diff) any {
	for _, item := range items {
		value = write(value, item.Path, item.New)
	}
	return value
}

func write(value any, path diff.Path, replacement any) any {
	if len(path) == 0 {
		return replacement
	}
	// Only a map is valid here. The type assertion panics for a wrong path.
	object := maps.Clone(value.(map[string]any))
	if len(path) == 1 && replacement == nil {
		delete(object, path[0])
	} else {
		object[path[0]] = write(object[path[0]], path[1:], replacement)
	}
	return object
}
