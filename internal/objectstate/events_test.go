package objectstate_test

import (
	"fmt"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// newFixtureWith returns a fixture whose store has options.
func newFixtureWith(options objectstate.Options, predicates ...predicate.Predicate) *fixture {
	s := objectstate.New[bool](options)
	return &fixture{s, s.EventHandler(nil, predicates...), &recorder{}}
}

// takeEvents returns the recorded events of a name with the uids and versions of their objects.
func takeEvents(s *objectstate.Store[bool], name string) []string {
	var out []string
	for _, event := range s.TakeEvents(nameOf(name)) {
		out = append(out, fmt.Sprintf("%s %s@%s", event.Type, event.Object.GetUID(), event.Object.GetResourceVersion()))
	}
	return out
}

func TestTakeEvents(t *testing.T) {
	s := newFixtureWith(objectstate.Options{RecordEvents: true})
	s.created(t, object("a", "1", "1"), true)
	s.created(t, object("b", "2", "2"), false)
	equal(t, "KW-07 EVT-01 an object of the first listing has no event type", takeEvents(s.Store, "a"), []string{" 1@1"})
	equal(t, "KW-07 a new object is added", takeEvents(s.Store, "b"), []string{"ADDED 2@2"})
	equal(t, "EVT-11 each event is returned once", len(takeEvents(s.Store, "a")), 0)

	s.updated(t, object("a", "1", "1"), object("a", "1", "3"))
	s.updated(t, object("a", "1", "3"), object("a", "1", "4"))
	s.updated(t, object("a", "1", "4"), object("a", "1", "4"))
	s.deleted(t, object("a", "1", "5"), false)
	equal(t, "EVT-11 EVT-20 all events in order, without resyncs", takeEvents(s.Store, "a"),
		[]string{"MODIFIED 1@3", "MODIFIED 1@4", "DELETED 1@5"})
}

func TestTakeEvents_ReplacedAndLostObjects(t *testing.T) {
	s := newFixtureWith(objectstate.Options{RecordEvents: true})
	s.created(t, object("a", "1", "1"), true)
	takeEvents(s.Store, "a")
	s.updated(t, object("a", "1", "1"), object("a", "2", "9"))
	equal(t, "B-04 B-06 SE-08 a replacement is a deletion and a creation", takeEvents(s.Store, "a"),
		[]string{"DELETED 1@1", "ADDED 2@9"})
	s.deleted(t, object("a", "2", "9"), true)
	equal(t, "B-04 SE-08 a tombstone is a deletion", takeEvents(s.Store, "a"), []string{"DELETED 2@9"})
}

// Event handlers receive all events: predicates apply only to the other kinds of handlers.
func TestRecordEvents_EnqueuesRejectedEvents(t *testing.T) {
	never := predicate.NewPredicateFuncs(func(client.Object) bool { return false })
	s := newFixtureWith(objectstate.Options{RecordEvents: true}, never)
	s.created(t, object("a", "1", "1"), true)
	s.updated(t, object("a", "1", "1"), object("a", "1", "2"))
	equal(t, "EVT-20 every change is enqueued", s.queued(), []string{"ns/a", "ns/a"})
	s.updated(t, object("a", "1", "2"), object("a", "1", "2"))
	equal(t, "EVT-20 a resync is not enqueued", len(s.queued()), 0)
	equal(t, "EVT-20 all events are recorded", takeEvents(s.Store, "a"), []string{" 1@1", "MODIFIED 1@2"})
}

func TestTakeEvents_NotRecorded(t *testing.T) {
	s := newFixtureWith(objectstate.Options{})
	s.created(t, object("a", "1", "1"), true)
	s.deleted(t, object("a", "1", "2"), false)
	equal(t, "events", len(takeEvents(s.Store, "a")), 0)
}

// EVT-11: each event is returned once, while other goroutines record events.
func TestTakeEvents_ConcurrentUse(t *testing.T) {
	const states = 500
	s := newFixtureWith(objectstate.Options{RecordEvents: true})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := range states {
			s.updated(t, object("a", "1", fmt.Sprint(n)), object("a", "1", fmt.Sprint(n+1)))
		}
	})
	var events []string
	wg.Go(func() {
		for len(events) < states {
			events = append(events, takeEvents(s.Store, "a")...)
		}
	})
	wg.Wait()
	for n, event := range events {
		if want := fmt.Sprintf("MODIFIED 1@%d", n+1); event != want {
			t.Fatalf("EVT-11: event %d is %q, want %q", n, event, want)
		}
	}
}
