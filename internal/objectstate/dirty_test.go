package objectstate_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// isDirty reports whether a key has foreign changes, and takes them.
func isDirty(s *objectstate.Store[bool], key types.NamespacedName, state *objectstate.State[bool], version string) bool {
	return len(s.TakeForeignChanges(key, state, version)) > 0
}

func TestTakeForeignChanges(t *testing.T) {
	for _, test := range []struct {
		name string
		seen []string // observed versions of the object, in order
		own  []string // versions of writes of this process
		from int      // changes of related objects
		want bool
	}{
		{"no change", nil, nil, 0, false},
		{"B-28 a write of another client", []string{"1"}, nil, 0, true},
		{"B-28 our own write", []string{"2"}, []string{"2"}, 0, false},
		{"B-28 only our own writes", []string{"2", "3"}, []string{"2", "3"}, 0, false},
		{"B-28 a write of another client between ours", []string{"2", "3", "4"}, []string{"2", "4"}, 0, true},
		{"B-28 our own write, not observed yet", nil, []string{"2"}, 0, false},
		{"B-28 a child has changed", nil, nil, 1, true},
		{"B-28 a child and our own write", []string{"2"}, []string{"2"}, 1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := objectstate.New[bool](objectstate.Options{TrackDirty: true})
			for _, version := range test.seen {
				s.Observe(object("a", "1", version), false)
			}
			for range test.from {
				s.MarkRelatedChange(nameOf("a"))
			}
			state := s.GetOrCreate("1")
			state.OwnVersions = test.own
			equal(t, "dirty", isDirty(s, nameOf("a"), state, ""), test.want)
			equal(t, "dirty, second call", isDirty(s, nameOf("a"), state, ""), false)
			equal(t, "dirty, other key", isDirty(s, nameOf("b"), &objectstate.State[bool]{}, ""), false)
		})
	}
}

// The watch may lag, and skip some versions.
func TestTakeForeignChanges_LateAndSkippedVersions(t *testing.T) {
	s := objectstate.New[bool](objectstate.Options{TrackDirty: true})
	state := s.GetOrCreate("1")
	state.OwnVersions = []string{"2", "3"}
	equal(t, "B-28 not observed yet", isDirty(s, nameOf("a"), state, ""), false)
	s.Observe(object("a", "1", "2"), false)
	equal(t, "B-28 the first write is observed", isDirty(s, nameOf("a"), state, ""), false)
	state.OwnVersions = append(state.OwnVersions, "4")
	s.Observe(object("a", "1", "3"), false)
	s.Observe(object("a", "1", "4"), false)
	equal(t, "B-28 the other writes are observed", isDirty(s, nameOf("a"), state, ""), false)
	equal(t, "own versions", len(state.OwnVersions), 0)
	for version := range 1000 {
		state.OwnVersions = append(state.OwnVersions, fmt.Sprint(version))
		isDirty(s, nameOf("a"), state, "")
	}
	if len(state.OwnVersions) > 100 {
		t.Errorf("%d own versions that were never observed, want at most 100", len(state.OwnVersions))
	}
	s.Observe(object("a", "1", "999"), false)
	equal(t, "B-28 the last write is observed", isDirty(s, nameOf("a"), state, ""), false)
}

// If a worker is slower than the watch, the store limits the number of recorded versions and loses no change of another client.
func TestTakeForeignChanges_LimitsVersions(t *testing.T) {
	for _, n := range []int{31, 32, 33, 34, 1000} {
		s := objectstate.New[bool](objectstate.Options{TrackDirty: true})
		state := s.GetOrCreate("1")
		s.Observe(object("a", "1", "foreign"), false)
		for version := range n {
			s.Observe(object("a", "1", fmt.Sprint(version)), false)
			state.OwnVersions = append(state.OwnVersions, fmt.Sprint(version))
		}
		equal(t, fmt.Sprintf("B-28 a write of another client before %d of ours", n), isDirty(s, nameOf("a"), state, ""), true)
	}
}

func TestTakeForeignChanges_NotTracked(t *testing.T) {
	s := objectstate.New[bool](objectstate.Options{})
	s.Observe(object("a", "1", "1"), false)
	s.MarkRelatedChange(nameOf("a"))
	equal(t, "dirty", isDirty(s, nameOf("a"), s.GetOrCreate("1"), ""), false)
}

// A worker reads an object, and another client writes it before the worker calls TakeForeignChange.
func TestTakeForeignChanges_KeepsNewerVersions(t *testing.T) {
	s := objectstate.New[bool](objectstate.Options{TrackDirty: true})
	state := s.GetOrCreate("1")
	s.Observe(object("a", "1", "5"), false)
	s.Observe(object("a", "1", "7"), false)
	equal(t, "B-28 up to the version", isDirty(s, nameOf("a"), state, "5"), true)
	equal(t, "B-28 up to the version, second call", isDirty(s, nameOf("a"), state, "5"), false)
	equal(t, "B-28 the newer version", isDirty(s, nameOf("a"), state, "7"), true)
	equal(t, "B-28 the newer version, second call", isDirty(s, nameOf("a"), state, "7"), false)

	for n := range 100 {
		s.Observe(object("a", "1", fmt.Sprint(10+n)), false)
	}
	equal(t, "B-28 many versions", isDirty(s, nameOf("a"), state, "108"), true)
	equal(t, "B-28 the last of many versions", isDirty(s, nameOf("a"), state, "109"), true)

	state.OwnVersions = []string{"120"}
	s.Observe(object("a", "1", "120"), false)
	equal(t, "B-28 our own write is newer than the object", isDirty(s, nameOf("a"), state, "110"), false)
	equal(t, "B-28 our own write", isDirty(s, nameOf("a"), state, "120"), false)

	s.Observe(object("a", "1", "130"), false)
	s.MarkDeleted(object("a", "1", "130"))
	equal(t, "B-28 after the deletion", isDirty(s, nameOf("a"), state, ""), false)
}
