package progress

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A scan in each lookup would make the work for an object with thousands of sub-handlers quadratic.
func TestState_LooksUpManyHandlersInAMap(t *testing.T) {
	obj, store, now := &metav1.PartialObjectMetadata{}, Smart(), time.Now()
	var subs []string
	for i := range 100 {
		subs = append(subs, fmt.Sprintf("old/%02d", i))
	}
	if err := store.Store(obj, "old", Record{Purpose: "create", Subrefs: subs}); err != nil {
		t.Fatal(err)
	}
	check := func(when string, s *State) {
		t.Helper()
		s.find("")
		if len(s.index) != len(s.handlers) {
			t.Errorf("%s: the map has %d of %d handlers", when, len(s.index), len(s.handlers))
		}
		for i, h := range s.handlers {
			if s.find(h.id) != &s.handlers[i] {
				t.Errorf("%s: find(%q) is not the handler at %d", when, h.id, i)
			}
		}
	}
	state, err := Load(store, obj, []string{"new"})
	check("after Rename", mustRename(t, state, store, obj))
	if err != nil {
		t.Fatal(err)
	}
	if state, err = Load(store, obj, []string{"old", "other"}); err != nil {
		t.Fatal(err)
	}
	check("after Load", state)
	state.Begin("create", []string{"old"}, now)
	declared := []string{"old/99", "old/new", "old/00", "old/new"}
	if err := state.Adopt(store, obj, "old", declared, now); err != nil {
		t.Fatal(err)
	}
	check("after Adopt", state)
	var last []string
	for _, h := range state.handlers[len(state.handlers)-3:] {
		last = append(last, h.id)
	}
	if want := declared[:3]; !slices.Equal(last, want) || !slices.Equal(state.DueBelow("old", now), want) {
		t.Errorf("the declared sub-handlers are %q, the due ones are %q, want %q", last, state.DueBelow("old", now), want)
	}
	if got, want := state.Record("old").Subrefs, append(subs, "old/new"); !slices.Equal(got, want) {
		t.Errorf("the record lists %q, want %q", got, want)
	}
}

func mustRename(t *testing.T, state *State, store Store, obj *metav1.PartialObjectMetadata) *State {
	t.Helper()
	if err := state.Rename(store, obj, "new", "old"); err != nil {
		t.Fatal(err)
	}
	return state
}
