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
		{"LIFE-02 B-20 AllAtOnce: all, in order", progress.AllAtOnce, nil, []string{"c", "a", "b"}, []string{"c", "a", "b"}},
		{"LIFE-02 AllAtOnce: none", progress.AllAtOnce, nil, nil, nil},
		{"LIFE-02 one by one: the first", progress.OneByOne, map[string]int{"c": 5}, []string{"c", "a", "b"}, []string{"c"}},
		{"LIFE-02 one by one: none", progress.OneByOne, nil, nil, nil},
		{"LIFE-02 asap: the least tried", progress.Asap, map[string]int{"a": 2, "b": 1, "c": 3}, []string{"a", "b", "c"}, []string{"b"}},
		{"LIFE-02 asap: one never tried before all others", progress.Asap, map[string]int{"a": 1, "b": 1}, []string{"a", "b", "c"}, []string{"c"}},
		{"LIFE-02 asap: the first of equals", progress.Asap, map[string]int{"a": 1, "b": 1, "c": 1}, []string{"c", "a", "b"}, []string{"c"}},
		{"LIFE-01 LIFE-02 asap: only among the due", progress.Asap, map[string]int{"a": 0, "b": 1, "c": 2}, []string{"c", "b"}, []string{"b"}},
		{"LIFE-02 asap: none", progress.Asap, nil, nil, nil},
		{"LIFE-02 shuffled: none", progress.Shuffled, nil, nil, nil},
		{"LIFE-02 randomized: none", progress.Randomized, nil, nil, nil},
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
		equal(t, "LIFE-02 shuffled: all, each once", got, due)
	}
	if len(seen) != 6 { // the probability of a missing order is 1 in 10^46
		t.Errorf("LIFE-02: the orders were %v, want all six", seen)
	}
	equal(t, "what was given is left alone", due, []string{"a", "b", "c"})
}

func TestRandomized(t *testing.T) {
	due := []string{"a", "b", "c"}
	seen := map[string]int{}
	for range 600 {
		got := progress.Randomized(due, nil)
		if len(got) != 1 {
			t.Fatalf("LIFE-02 randomized: picked %v, want one", got)
		}
		seen[got[0]]++
	}
	if len(seen) != 3 {
		t.Errorf("LIFE-02 randomized: picked %v, want each sometimes", seen)
	}
	equal(t, "what was given is left alone", due, []string{"a", "b", "c"})
}
