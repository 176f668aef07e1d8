package objectstate_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

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

// The queue of a controller has priorities, unless the user has turned them off.
func TestEnqueue(t *testing.T) {
	a, b := nameOf("a"), nameOf("b")
	t.Run("before the start of the controller", func(t *testing.T) {
		s := newFixture()
		if s.Enqueue(0, a); s.Queue() != nil {
			t.Error("there is a queue")
		}
		if _, queued := s.QueuedSince(a); queued {
			t.Error("the key counts as queued")
		}
	})
	t.Run("without priorities", func(t *testing.T) {
		s, q := newFixture(), workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer q.ShutDown()
		startSource(t, s.Store, q)
		s.Enqueue(5, a, b)
		first, _ := q.Get()
		second, _ := q.Get()
		if first.NamespacedName != a || second.NamespacedName != b {
			t.Errorf("the queue has %s and %s, want a and b", first, second)
		}
		expectQueued(t, s.Store, a, b)
	})
	t.Run("with priorities", func(t *testing.T) {
		s, q := newFixture(), priorityqueue.New[reconcile.Request]("test")
		defer q.ShutDown()
		startSource(t, s.Store, q)
		s.Enqueue(-1, a)
		s.Enqueue(7, b)
		var got []string
		for range 2 {
			req, priority, _ := q.GetWithPriority()
			got = append(got, fmt.Sprint(req.Name, " ", priority))
		}
		if want := []string{"b 7", "a -1"}; !slices.Equal(got, want) {
			t.Errorf("the queue has %q, want %q", got, want)
		}
		expectQueued(t, s.Store, a, b)
	})
}

func startSource(t *testing.T, s *objectstate.Store[bool], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	t.Helper()
	if err := s.Source().Start(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.Source()); got != "background" {
		t.Errorf("the name of the source in logs is %q", got)
	}
}

func expectQueued(t *testing.T, s *objectstate.Store[bool], keys ...types.NamespacedName) {
	t.Helper()
	for _, key := range keys {
		if _, queued := s.QueuedSince(key); !queued {
			t.Errorf("%s does not count as queued", key)
		}
	}
}
