package objectstate_test

import (
	"fmt"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

func TestStirred(t *testing.T) {
	for _, test := range []struct {
		name string
		seen []string // versions of the object, in order
		own  []string // versions of our own writes
		from int      // how often something was stirred from outside
		want bool
	}{
		{"nothing has happened", nil, nil, 0, false},
		{"B-28 somebody's write", []string{"1"}, nil, 0, true},
		{"B-28 our own write", []string{"2"}, []string{"2"}, 0, false},
		{"B-28 only our own writes", []string{"2", "3"}, []string{"2", "3"}, 0, false},
		{"B-28 somebody's write between ours", []string{"2", "3", "4"}, []string{"2", "4"}, 0, true},
		{"B-28 our own write that is not seen yet", nil, []string{"2"}, 0, false},
		{"B-28 a child has changed", nil, nil, 1, true},
		{"B-28 a child has changed beside our own write", []string{"2"}, []string{"2"}, 1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := objectstate.New(objectstate.Wants{Stirs: true})
			for _, version := range test.seen {
				i.Observe(object("a", "1", version), false)
			}
			for range test.from {
				i.Stir(nameOf("a"))
			}
			memory := i.Recall("1")
			memory.Own = test.own
			equal(t, "stirred", i.Stirred(nameOf("a"), memory, ""), test.want)
			equal(t, "stirred again", i.Stirred(nameOf("a"), memory, ""), false)
			equal(t, "stirred elsewhere", i.Stirred(nameOf("b"), &objectstate.Memory{}, ""), false)
		})
	}
}

// The watch may lag, and pass over some versions altogether.
func TestOwnWritesThatAreSeenLate(t *testing.T) {
	i := objectstate.New(objectstate.Wants{Stirs: true})
	memory := i.Recall("1")
	memory.Own = []string{"2", "3"}
	equal(t, "B-28 not seen yet", i.Stirred(nameOf("a"), memory, ""), false)
	i.Observe(object("a", "1", "2"), false)
	equal(t, "B-28 the first is seen", i.Stirred(nameOf("a"), memory, ""), false)
	memory.Own = append(memory.Own, "4")
	i.Observe(object("a", "1", "3"), false)
	i.Observe(object("a", "1", "4"), false)
	equal(t, "B-28 the others are seen", i.Stirred(nameOf("a"), memory, ""), false)
	equal(t, "what is seen is forgotten", len(memory.Own), 0)
	for version := range 1000 {
		memory.Own = append(memory.Own, fmt.Sprint(version))
		i.Stirred(nameOf("a"), memory, "")
	}
	if len(memory.Own) > 100 {
		t.Errorf("%d versions are kept that are never seen", len(memory.Own))
	}
	i.Observe(object("a", "1", "999"), false)
	equal(t, "B-28 the last is seen", i.Stirred(nameOf("a"), memory, ""), false)
}

// Many versions may come and go before a worker looks: what is kept of them is bounded, and nothing is lost.
func TestStirsDoNotPileUp(t *testing.T) {
	for _, n := range []int{31, 32, 33, 34, 1000} {
		i := objectstate.New(objectstate.Wants{Stirs: true})
		memory := i.Recall("1")
		i.Observe(object("a", "1", "somebody's"), false)
		for version := range n {
			i.Observe(object("a", "1", fmt.Sprint(version)), false)
			memory.Own = append(memory.Own, fmt.Sprint(version))
		}
		equal(t, fmt.Sprintf("B-28 somebody's write before %d of ours", n), i.Stirred(nameOf("a"), memory, ""), true)
	}
}

func TestNobodyWantsStirs(t *testing.T) {
	i := objectstate.New(objectstate.Wants{})
	i.Observe(object("a", "1", "1"), false)
	i.Stir(nameOf("a"))
	equal(t, "stirred", i.Stirred(nameOf("a"), i.Recall("1"), ""), false)
}

// A worker has read an object, and somebody writes it before the worker asks: what it is about to handle is not that.
func TestStirsThatTheWorkerHasNotSeen(t *testing.T) {
	i := objectstate.New(objectstate.Wants{Stirs: true})
	memory := i.Recall("1")
	i.Observe(object("a", "1", "5"), false)
	i.Observe(object("a", "1", "7"), false)
	equal(t, "B-28 what was seen", i.Stirred(nameOf("a"), memory, "5"), true)
	equal(t, "B-28 that was all", i.Stirred(nameOf("a"), memory, "5"), false)
	equal(t, "B-28 what is seen later", i.Stirred(nameOf("a"), memory, "7"), true)
	equal(t, "B-28 once", i.Stirred(nameOf("a"), memory, "7"), false)

	for n := range 100 {
		i.Observe(object("a", "1", fmt.Sprint(10+n)), false)
	}
	equal(t, "B-28 of many", i.Stirred(nameOf("a"), memory, "108"), true)
	equal(t, "B-28 the last one", i.Stirred(nameOf("a"), memory, "109"), true)

	memory.Own = []string{"120"}
	i.Observe(object("a", "1", "120"), false)
	equal(t, "B-28 our own one that is not seen yet", i.Stirred(nameOf("a"), memory, "110"), false)
	equal(t, "B-28 it is still our own when it is", i.Stirred(nameOf("a"), memory, "120"), false)

	i.Observe(object("a", "1", "130"), false)
	i.Bury(object("a", "1", "130"))
	equal(t, "B-28 of an object that is gone", i.Stirred(nameOf("a"), memory, ""), false)
}
