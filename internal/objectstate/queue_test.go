package objectstate_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// expectQueue checks the result of QueueStats.
func expectQueue(t *testing.T, what string, s *objectstate.Store[bool], n int, longest time.Duration) {
	t.Helper()
	gotN, gotLongest := s.QueueStats()
	if gotN != n || gotLongest != longest {
		t.Errorf("%s: %d keys are queued, the longest for %s; want %d, %s", what, gotN, gotLongest, n, longest)
	}
}

func TestQueueStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture()
		expectQueue(t, "empty", s.Store, 0, 0)
		s.created(t, object("a", "1", "1"), true)
		sleep(2 * time.Second)
		s.created(t, object("b", "2", "2"), false)
		s.updated(t, object("a", "1", "1"), object("a", "1", "3"))
		sleep(time.Second)
		expectQueue(t, "another event does not restart the time", s.Store, 2, 3*time.Second)
		s.MarkStarted(nameOf("a"))
		expectQueue(t, "a worker has started the first", s.Store, 1, time.Second)
		s.MarkStarted(nameOf("b"))
		s.MarkStarted(nameOf("x"))
		expectQueue(t, "a worker has started the second", s.Store, 0, 0)
	})
}

func TestMarkQueuedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture()
		s.MarkQueuedAt(nameOf("a"), time.Now().Add(time.Minute))
		expectQueue(t, "B-03 before the time", s.Store, 0, 0)
		sleep(time.Minute + time.Second)
		expectQueue(t, "B-03 after the time", s.Store, 1, time.Second)

		s.MarkQueuedAt(nameOf("a"), time.Now().Add(time.Hour))
		sleep(time.Second)
		expectQueue(t, "a queued key keeps its time", s.Store, 1, 2*time.Second)

		s.MarkQueuedAt(nameOf("b"), time.Now().Add(time.Hour))
		s.created(t, object("b", "2", "1"), false)
		sleep(time.Second)
		s.MarkStarted(nameOf("a"))
		expectQueue(t, "an event before the time", s.Store, 1, time.Second)
	})
}

// After a long queue, such as that of a start, the store keeps no memory for it.
func TestMarkStarted_ReleasesMemory(t *testing.T) {
	const keys = 50_000
	s := newFixture()
	before := heapSize()
	for n := range keys {
		s.MarkQueued(nameOf(strconv.Itoa(n)))
	}
	for n := range keys {
		s.MarkStarted(nameOf(strconv.Itoa(n)))
	}
	if after := heapSize(); after > before+keys*10 {
		t.Errorf("%d bytes remain for each key, want less than 10", (after-before)/keys)
	}
	expectQueue(t, "all keys are started", s.Store, 0, 0)
}

func TestLongestQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture()
		for _, name := range []string{"a", "b", "c", "d"} {
			s.created(t, object(name, name, "1"), true)
			sleep(time.Second)
		}
		s.MarkQueuedAt(nameOf("later"), time.Now().Add(time.Hour))
		names := func(atMost int, than time.Duration) (out []string) {
			for _, key := range s.LongestQueued(atMost, than) {
				out = append(out, key.Name)
			}
			return out
		}
		equal(t, "sorted", names(2, 0), []string{"a", "b"})
		equal(t, "fewer than the limit", names(9, 0), []string{"a", "b", "c", "d"})
		equal(t, "minimum age", names(9, 3*time.Second), []string{"a", "b"})
		equal(t, "no key is old enough", len(names(9, time.Minute)), 0)
		s.MarkStarted(types.NamespacedName{Namespace: "ns", Name: "a"})
		equal(t, "a worker has started the first", names(1, 0), []string{"b"})
	})
}

// sleep lets time pass in a synctest bubble.
func sleep(d time.Duration) { <-time.After(d) }

func TestQueuedSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture()
		if _, queued := s.QueuedSince(nameOf("a")); queued {
			t.Error("an unknown key is queued")
		}
		due := time.Now().Add(time.Minute)
		s.MarkQueuedAt(nameOf("a"), due)
		if _, queued := s.QueuedSince(nameOf("a")); queued {
			t.Error("a key is queued before its time")
		}
		sleep(2 * time.Minute)
		if since, queued := s.QueuedSince(nameOf("a")); !queued || !since.Equal(due) {
			t.Errorf("the key is queued since %s (%t), want %s", since, queued, due)
		}
		s.MarkStarted(nameOf("a"))
		if _, queued := s.QueuedSince(nameOf("a")); queued {
			t.Error("the key is queued after its start")
		}
	})
}
