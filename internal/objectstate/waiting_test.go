package objectstate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// waits fails the test unless so many names wait, the first of them for that long.
func waits(t *testing.T, what string, i *objectstate.Inventory, n int, longest time.Duration) {
	t.Helper()
	gotN, gotLongest := i.Waiting()
	if gotN != n || gotLongest != longest {
		t.Errorf("%s: %d wait, the first for %s; want %d, %s", what, gotN, gotLongest, n, longest)
	}
}

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		waits(t, "nobody", s.Inventory, 0, 0)
		s.created(t, object("a", "1", "1"), true)
		pass(2 * time.Second)
		s.created(t, object("b", "2", "2"), false)
		s.updated(t, object("a", "1", "1"), object("a", "1", "3"))
		pass(time.Second)
		waits(t, "an event more does not make one wait anew", s.Inventory, 2, 3*time.Second)
		s.Take(nameOf("a"))
		waits(t, "a worker has begun with the first", s.Inventory, 1, time.Second)
		s.Take(nameOf("b"))
		s.Take(nameOf("x"))
		waits(t, "and with the other", s.Inventory, 0, 0)
	})
}

func TestExpect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.Expect(nameOf("a"), time.Now().Add(time.Minute))
		waits(t, "B-03 one that is to come back later does not wait", s.Inventory, 0, 0)
		pass(time.Minute + time.Second)
		waits(t, "B-03 from then on it does", s.Inventory, 1, time.Second)

		s.Expect(nameOf("a"), time.Now().Add(time.Hour))
		pass(time.Second)
		waits(t, "who waits already is not put off", s.Inventory, 1, 2*time.Second)

		s.Expect(nameOf("b"), time.Now().Add(time.Hour))
		s.created(t, object("b", "2", "1"), false)
		pass(time.Second)
		s.Take(nameOf("a"))
		waits(t, "an event is earlier than what was expected", s.Inventory, 1, time.Second)
	})
}

func TestLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		for _, name := range []string{"a", "b", "c", "d"} {
			s.created(t, object(name, name, "1"), true)
			pass(time.Second)
		}
		s.Expect(nameOf("later"), time.Now().Add(time.Hour))
		names := func(atMost int, than time.Duration) (out []string) {
			for _, key := range s.Longest(atMost, than) {
				out = append(out, key.Name)
			}
			return out
		}
		equal(t, "the first ones first", names(2, 0), []string{"a", "b"})
		equal(t, "as many as there are", names(9, 0), []string{"a", "b", "c", "d"})
		equal(t, "of those that have waited for long", names(9, 3*time.Second), []string{"a", "b"})
		equal(t, "none has", len(names(9, time.Minute)), 0)
		s.Take(types.NamespacedName{Namespace: "ns", Name: "a"})
		equal(t, "a worker has begun with the first", names(1, 0), []string{"b"})
	})
}

// pass lets time go by in a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }
