package objectstate_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// isDirty reports whether a key has foreign changes, and takes them. The object has the uid "1".
func isDirty(s *objectstate.Store[bool], key types.NamespacedName, version string) bool {
	return len(s.TakeForeignChanges(key, "1", version)) > 0
}

// addOwn records writes of this process that contain no change of another client.
func addOwn(s *objectstate.Store[bool], versions ...string) {
	for _, version := range versions {
		s.AddOwnVersion("1", objectstate.OwnVersion{Version: version})
	}
}

// A write can also contain a change of another client that the watch never shows alone, for example because it ended and listed the objects.
func TestTakeForeignChanges_EditWithinOurWrite(t *testing.T) {
	for _, test := range []struct {
		name string
		seen []string // observed versions of the object, in order
		own  []objectstate.OwnVersion
		want []string
	}{
		{"no edit", []string{"1", "3"}, []objectstate.OwnVersion{{Version: "3"}}, []string{"1"}},
		{"B-28 an edit that the watch has skipped", []string{"1", "3"}, []objectstate.OwnVersion{{Version: "3", EditedAfter: "1"}}, []string{"1", "3"}},
		{"B-28 an edit that the watch has shown", []string{"1", "2", "3"}, []objectstate.OwnVersion{{Version: "3", EditedAfter: "1"}}, []string{"1", "2"}},
		{
			"B-28 two requests, and the watch shows only the last version",
			[]string{"1", "4"}, []objectstate.OwnVersion{{Version: "3", EditedAfter: "1"}, {Version: "4", EditedAfter: "3"}}, []string{"1", "4"},
		},
		{"B-28 the first observed version", []string{"3"}, []objectstate.OwnVersion{{Version: "3", EditedAfter: "1"}}, []string{"3"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := objectstate.New[bool](objectstate.Options{TrackDirty: true})
			for _, version := range test.seen {
				s.Observe(object("a", "1", version), false)
			}
			for _, v := range test.own {
				s.AddOwnVersion("1", v)
			}
			equal(t, "foreign changes", s.TakeForeignChanges(nameOf("a"), "1", ""), test.want)
		})
	}
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
			s.GetOrCreate("1")
			addOwn(s, test.own...)
			equal(t, "dirty", isDirty(s, nameOf("a"), ""), test.want)
			equal(t, "dirty, second call", isDirty(s, nameOf("a"), ""), false)
			equal(t, "dirty, other key", isDirty(s, nameOf("b"), ""), false)
		})
	}
}

// The watch may lag, and skip some versions.
func TestTakeForeignChanges_LateAndSkippedVersions(t *testing.T) {
	s := objectstate.New[bool](objectstate.Options{TrackDirty: true})
	s.GetOrCreate("1")
	addOwn(s, "2", "3")
	equal(t, "B-28 not observed yet", isDirty(s, nameOf("a"), ""), false)
	s.Observe(object("a", "1", "2"), false)
	equal(t, "B-28 the first write is observed", isDirty(s, nameOf("a"), ""), false)
	addOwn(s, "4")
	s.Observe(object("a", "1", "3"), false)
	s.Observe(object("a", "1", "4"), false)
	equal(t, "B-28 the other writes are observed", isDirty(s, nameOf("a"), ""), false)
	for version := range 1000 {
		addOwn(s, fmt.Sprint(version))
		isDirty(s, nameOf("a"), "")
	}
	s.Observe(object("a", "1", "999"), false)
	equal(t, "B-28 the last write is observed", isDirty(s, nameOf("a"), ""), false)
	s.Observe(object("a", "1", "899"), false)
	equal(t, "B-28 a write before the last 100 is forgotten", isDirty(s, nameOf("a"), ""), true)
}

// If a worker is slower than the watch, the store limits the number of recorded versions and loses no change of another client.
func TestTakeForeignChanges_LimitsVersions(t *testing.T) {
	for _, n := range []int{31, 32, 33, 34, 1000} {
		s := objectstate.New[bool](objectstate.Options{TrackDirty: true})
		s.Observe(object("a", "1", "foreign"), false)
		for version := range n {
			s.Observe(object("a", "1", fmt.Sprint(version)), false)
			addOwn(s, fmt.Sprint(version))
		}
		equal(t, fmt.Sprintf("B-28 a write of another client before %d of ours", n), isDirty(s, nameOf("a"), ""), true)
	}
}

// A worker may write an object whose state was removed. A later object does not inherit the version.
func TestAddOwnVersion_UnknownObject(t *testing.T) {
	s := objectstate.New[bool](objectstate.Options{TrackDirty: true})
	addOwn(s, "2")
	s.Observe(object("a", "1", "2"), false)
	equal(t, "the version was recorded for an unknown object: dirty", isDirty(s, nameOf("a"), ""), true)
	addOwn(s, "3")
	s.Forget("1")
	s.Observe(object("a", "1", "3"), false)
	equal(t, "the version was recorded before Forget: dirty", isDirty(s, nameOf("a"), ""), true)
}

func TestTakeForeignChanges_NotTracked(t *testing.T) {
	s := objectstate.New[bool](objectstate.Options{})
	s.Observe(object("a", "1", "1"), false)
	s.MarkRelatedChange(nameOf("a"))
	equal(t, "dirty", isDirty(s, nameOf("a"), ""), false)
}

// A worker reads an object, and another client writes it before the worker calls TakeForeignChange.
func TestTakeForeignChanges_KeepsNewerVersions(t *testing.T) {
	s := objectstate.New[bool](objectstate.Options{TrackDirty: true})
	s.Observe(object("a", "1", "5"), false)
	s.Observe(object("a", "1", "7"), false)
	equal(t, "B-28 up to the version", isDirty(s, nameOf("a"), "5"), true)
	equal(t, "B-28 up to the version, second call", isDirty(s, nameOf("a"), "5"), false)
	equal(t, "B-28 the newer version", isDirty(s, nameOf("a"), "7"), true)
	equal(t, "B-28 the newer version, second call", isDirty(s, nameOf("a"), "7"), false)

	for n := range 100 {
		s.Observe(object("a", "1", fmt.Sprint(10+n)), false)
	}
	equal(t, "B-28 many versions", isDirty(s, nameOf("a"), "108"), true)
	equal(t, "B-28 the last of many versions", isDirty(s, nameOf("a"), "109"), true)

	addOwn(s, "120")
	s.Observe(object("a", "1", "120"), false)
	equal(t, "B-28 our own write is newer than the object", isDirty(s, nameOf("a"), "110"), false)
	equal(t, "B-28 our own write", isDirty(s, nameOf("a"), "120"), false)

	s.Observe(object("a", "1", "130"), false)
	s.MarkLeft(objectstate.LeftObject{Object: object("a", "1", "130")})
	equal(t, "B-28 after the deletion", isDirty(s, nameOf("a"), ""), false)
}
