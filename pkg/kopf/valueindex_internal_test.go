package kopf

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type index = valueIndex[string, int, string]

func newIndex() *index { return newValueIndex[string, int, string]() }

// content returns all values of an index, sorted.
func content(x *index) map[string][]int {
	all := maps.Collect(x.All())
	for _, values := range all {
		slices.Sort(values)
	}
	return all
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestValueIndex(t *testing.T) {
	type values = map[string]int
	type step struct {
		id     string
		values values
	}
	for _, test := range []struct {
		name  string
		steps []step
		want  map[string][]int
	}{
		{"IDX-01 empty", nil, map[string][]int{}},
		{"IDX-02 several objects under one key", []step{{"1", values{"a": 1}}, {"2", values{"a": 2}}}, map[string][]int{"a": {1, 2}}},
		{"IDX-20 equal values of several objects", []step{{"1", values{"a": 7}}, {"2", values{"a": 7}}}, map[string][]int{"a": {7, 7}}},
		{"IDX-02 one object under several keys", []step{{"1", values{"a": 1, "b": 2}}}, map[string][]int{"a": {1}, "b": {2}}},
		{"IDX-05 one value for each key of an object", []step{{"1", values{"a": 1}}, {"1", values{"a": 3}}}, map[string][]int{"a": {3}}},
		{"IDX-05 an update without an earlier key", []step{{"1", values{"a": 1, "b": 2}}, {"1", values{"b": 3, "c": 4}}}, map[string][]int{"b": {3}, "c": {4}}},
		{"IDX-05 an update keeps the values of other objects", []step{{"1", values{"a": 1}}, {"2", values{"a": 2}}, {"1", values{"b": 3}}}, map[string][]int{"a": {2}, "b": {3}}},
		{"IDX-02 an update without values", []step{{"1", values{"a": 1}}, {"1", values{}}}, map[string][]int{}},
		{"IDX-12 a removed object", []step{{"1", values{"a": 1, "b": 2}}, {"2", values{"b": 3}}, {"1", nil}}, map[string][]int{"b": {3}}},
		{"IDX-12 an unknown object is removed", []step{{"1", values{"a": 1}}, {"2", nil}}, map[string][]int{"a": {1}}},
		{"IDX-12 a removed object is added again", []step{{"1", values{"a": 1}}, {"1", nil}, {"1", values{"a": 2}}}, map[string][]int{"a": {2}}},
		{"IDX-03 zero key and zero value", []step{{"1", values{"": 0}}}, map[string][]int{"": {0}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := newIndex()
			for _, s := range test.steps {
				if s.values == nil {
					x.Remove(s.id)
				} else {
					x.Set(s.id, s.values)
				}
			}
			equal(t, "content", content(x), test.want)
			equal(t, "IDX-20 count of keys", x.Len(), len(test.want))
			for _, key := range []string{"", "a", "b", "c"} {
				got := x.Get(key)
				slices.Sort(got)
				equal(t, "IDX-20 the values of "+key, got, test.want[key])
				equal(t, "IDX-20 membership of "+key, x.Has(key), len(test.want[key]) > 0)
			}
		})
	}
}

// IDX-02: changes of arguments and results do not change the index.
func TestValueIndex_CopiesValues(t *testing.T) {
	x := newIndex()
	given := map[string]int{"a": 1}
	x.Set("1", given)
	given["a"], given["b"] = 9, 9
	x.Get("a")[0] = 9
	for _, values := range x.All() {
		values[0] = 9
	}
	equal(t, "content", content(x), map[string][]int{"a": {1}})
}

func TestValueIndex_Clear(t *testing.T) {
	x := newIndex()
	x.Set("1", map[string]int{"a": 1, "b": 2})
	x.Clear()
	equal(t, "IDX-01 empty after Clear", content(x), map[string][]int{})
	x.Set("1", map[string]int{"b": 3})
	equal(t, "IDX-05 values after Clear", content(x), map[string][]int{"b": {3}})
}

func TestValueIndex_Prune(t *testing.T) {
	x := newIndex()
	for _, id := range []string{"1", "2", "3"} {
		x.Set(id, map[string]int{"all": 1, "of " + id: 1})
	}
	x.Prune(func(id string) bool { return id != "2" })
	equal(t, "content", content(x), map[string][]int{"all": {1, 1}, "of 1": {1}, "of 3": {1}})
	x.Set("2", map[string]int{"all": 2})
	equal(t, "content after another update", content(x), map[string][]int{"all": {1, 1, 2}, "of 1": {1}, "of 3": {1}})
}

func TestValueIndex_AllWithBreakAndConcurrentUpdate(t *testing.T) {
	x := newIndex()
	for n := range 5 {
		x.Set(fmt.Sprint(n), map[string]int{fmt.Sprint(n): n})
	}
	seen := 0
	for range x.All() {
		if seen++; seen == 2 {
			break
		}
	}
	equal(t, "IDX-20 keys before the break", seen, 2)
	for key, values := range x.All() { // All holds no lock during the iteration, and skips removed keys
		for n := range 5 {
			if id := fmt.Sprint(n); id != key {
				x.Remove(id)
			}
		}
		equal(t, "IDX-20 values of the first key", len(values), 1)
	}
	equal(t, "IDX-20 remaining keys", x.Len(), 1)
}

// BenchmarkValueIndex_Get shows IDX-19: the duration of a lookup does not depend on the number of keys and objects.
func BenchmarkValueIndex_Get(b *testing.B) {
	for _, size := range []int{1, 1_000, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			x := newIndex()
			for n := range size {
				x.Set(fmt.Sprint(n), map[string]int{fmt.Sprint(n): n})
			}
			for b.Loop() {
				if got := x.Get("0"); len(got) != 1 {
					b.Fatalf("got %d values, want 1", len(got))
				}
			}
		})
	}
}

// The informer updates the index while handlers read it.
func TestValueIndex_ConcurrentUse(t *testing.T) {
	const objects, rounds = 8, 200
	x := newIndex()
	var wg sync.WaitGroup
	for object := range objects {
		id := fmt.Sprint(object)
		wg.Go(func() {
			for n := range rounds {
				x.Set(id, map[string]int{"all": n, "own-" + id: n, fmt.Sprint("parity-", n%2): n})
				if n%10 == 9 {
					x.Remove(id)
				}
			}
			x.Set(id, map[string]int{"all": object})
		})
		wg.Go(func() {
			for range rounds {
				if got := x.Get("all"); len(got) > objects {
					t.Errorf("IDX-05: Get returned %d values, want at most %d", len(got), objects)
				}
				if got := x.Get("own-" + id); len(got) > 1 {
					t.Errorf("IDX-05: Get returned %d values of one object, want at most 1", len(got))
				}
				for key, values := range x.All() {
					if len(values) == 0 {
						t.Errorf("IDX-02: the key %s has no values", key)
					}
				}
				x.Has("all")
				x.Len()
			}
		})
	}
	wg.Wait()
	equal(t, "content after all updates", content(x), map[string][]int{"all": {0, 1, 2, 3, 4, 5, 6, 7}})
}
