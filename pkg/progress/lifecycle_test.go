package progress_test

import (
	"slices"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// withRetries returns a state with the given numbers of attempts.
func withRetries(t *testing.T, retries map[string]int) *progress.State {
	t.Helper()
	store, obj := progress.Annotations(""), configMap()
	var ids []string
	for id, n := range retries {
		ids = append(ids, id)
		mustStore(t, store, obj, id, progress.Record{Retries: n})
	}
	state, err := progress.Load(store, obj, ids)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func TestLifecycles(t *testing.T) {
	for _, test := range []struct {
		name      string
		lifecycle progress.Lifecycle
		retries   map[string]int
		due, want []string
	}{
		{"LIFE-02 B-20 AllAtOnce: all handlers in order", progress.AllAtOnce, nil, []string{"c", "a", "b"}, []string{"c", "a", "b"}},
		{"LIFE-02 AllAtOnce: no handlers", progress.AllAtOnce, nil, nil, nil},
		{"LIFE-02 one by one: the first handler", progress.OneByOne, map[string]int{"c": 5}, []string{"c", "a", "b"}, []string{"c"}},
		{"LIFE-02 one by one: no handlers", progress.OneByOne, nil, nil, nil},
		{"LIFE-02 asap: the handler with the fewest attempts", progress.Asap, map[string]int{"a": 2, "b": 1, "c": 3}, []string{"a", "b", "c"}, []string{"b"}},
		{"LIFE-02 asap: a handler without attempts", progress.Asap, map[string]int{"a": 1, "b": 1}, []string{"a", "b", "c"}, []string{"c"}},
		{"LIFE-02 asap: equal attempts", progress.Asap, map[string]int{"a": 1, "b": 1, "c": 1}, []string{"c", "a", "b"}, []string{"c"}},
		{"LIFE-01 LIFE-02 asap: only due handlers", progress.Asap, map[string]int{"a": 0, "b": 1, "c": 2}, []string{"c", "b"}, []string{"b"}},
		{"LIFE-02 asap: no handlers", progress.Asap, nil, nil, nil},
		{"LIFE-02 shuffled: no handlers", progress.Shuffled, nil, nil, nil},
		{"LIFE-02 randomized: no handlers", progress.Randomized, nil, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.lifecycle(slices.Clone(test.due), withRetries(t, test.retries).Record)
			if !slices.Equal(got, test.want) {
				t.Errorf("picked %v, want %v", got, test.want)
			}
		})
	}
}

func TestShuffled(t *testing.T) {
	due := []string{"a", "b", "c"}
	seen := map[string]int{}
	for range 600 {
		got := progress.Shuffled(due, nil)
		seen[got[0]+got[1]+got[2]]++
		slices.Sort(got)
		equal(t, "LIFE-02 shuffled: handlers", got, due)
	}
	if len(seen) != 6 { // the probability of a missing order is 1 in 10^46
		t.Errorf("LIFE-02: orders = %v, want all six", seen)
	}
	equal(t, "the argument", due, []string{"a", "b", "c"})
}

func TestRandomized(t *testing.T) {
	due := []string{"a", "b", "c"}
	seen := map[string]int{}
	for range 600 {
		got := progress.Randomized(due, nil)
		if len(got) != 1 {
			t.Fatalf("LIFE-02 randomized: picked %v, want one handler", got)
		}
		seen[got[0]]++
	}
	if len(seen) != 3 {
		t.Errorf("LIFE-02 randomized: picked %v, want all handlers over time", seen)
	}
	equal(t, "the argument", due, []string{"a", "b", "c"})
}
