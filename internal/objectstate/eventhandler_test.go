package objectstate_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// recorder is a work queue that records the added keys.
type recorder struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	names []string
}

func (r *recorder) Add(request reconcile.Request) { r.names = append(r.names, request.String()) }

// fixture is a store with its event handler.
type fixture struct {
	*objectstate.Store[bool]
	handler.EventHandler
	queue *recorder
}

func newFixture(predicates ...predicate.Predicate) *fixture {
	s := objectstate.New[bool](objectstate.Options{})
	return &fixture{s, s.EventHandler(nil, predicates...), &recorder{}}
}

func (s *fixture) created(t *testing.T, obj *corev1.ConfigMap, listed bool) {
	s.Create(t.Context(), event.CreateEvent{Object: obj, IsInInitialList: listed}, s.queue)
}

func (s *fixture) updated(t *testing.T, before, after *corev1.ConfigMap) {
	s.EventHandler.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, s.queue)
}

func (s *fixture) deleted(t *testing.T, obj *corev1.ConfigMap, unknown bool) {
	s.Delete(t.Context(), event.DeleteEvent{Object: obj, DeleteStateUnknown: unknown}, s.queue)
}

func (s *fixture) queued() []string {
	names := s.queue.names
	s.queue.names = nil
	return names
}

func TestEventHandler_RecordsAndEnqueues(t *testing.T) {
	s := newFixture()
	s.created(t, object("a", "1", "1"), true)
	s.created(t, object("b", "2", "2"), false)
	equal(t, "creations are enqueued", s.queued(), []string{"ns/a", "ns/b"})
	equal(t, "CAUSE-20 MIG-14 listed at the start", s.GetOrCreate("1").ExistedAtStart, true)
	equal(t, "CAUSE-20 MIG-14 created later", s.GetOrCreate("2").ExistedAtStart, false)

	s.updated(t, object("a", "1", "1"), object("a", "1", "3"))
	s.updated(t, object("a", "1", "3"), object("a", "1", "3"))
	equal(t, "MIG-14 updates and resyncs are enqueued", s.queued(), []string{"ns/a", "ns/a"})
	equal(t, "CAUSE-22 MIG-14 still listed", s.GetOrCreate("1").ExistedAtStart, true)
	equal(t, "objects that have left", len(takeLeft(s.Store, "a")), 0)
	equal(t, "count", s.Len(), 2)
}

func TestEventHandler_FirstEventIsAnUpdate(t *testing.T) {
	s := newFixture()
	s.updated(t, object("a", "1", "1"), object("a", "1", "2"))
	equal(t, "count", s.Len(), 1)
	equal(t, "CAUSE-20 not listed at the start", s.GetOrCreate("1").ExistedAtStart, false)
	equal(t, "enqueued", s.queued(), []string{"ns/a"})
}

func TestEventHandler_Deletion(t *testing.T) {
	for _, test := range []struct {
		name    string
		unknown bool
	}{
		{"B-04 delete event", false},
		{"B-04 SE-08 tombstone after a lost watch", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newFixture()
			s.created(t, object("a", "1", "1"), true)
			s.queued()
			s.deleted(t, object("a", "1", "4"), test.unknown)
			equal(t, "enqueued", s.queued(), []string{"ns/a"})
			equal(t, "the last known state", takeLeft(s.Store, "a"), []string{"1@4"})
		})
	}
}

func TestEventHandler_UpdateWithAnotherUID(t *testing.T) {
	s := newFixture()
	s.created(t, object("a", "1", "1"), true)
	s.GetOrCreate("1").Worker = true
	s.queued()
	s.updated(t, object("a", "1", "1"), object("a", "2", "9"))
	equal(t, "B-04 B-06 enqueued", s.queued(), []string{"ns/a"})
	equal(t, "B-04 B-06 tombstone of the old object", takeLeft(s.Store, "a"), []string{"1@1"})
	equal(t, "B-06 MEMO-04 state of the new object", *s.GetOrCreate("2"), objectstate.State[bool]{})
	equal(t, "B-06 state of the old object, for its optional delete handlers", s.GetOrCreate("1").Worker, true)
}

func TestEventHandler_DeletionOfUnknownObject(t *testing.T) {
	s := newFixture()
	s.deleted(t, object("a", "1", "4"), true)
	equal(t, "enqueued", s.queued(), []string{"ns/a"})
	equal(t, "objects that have left", len(takeLeft(s.Store, "a")), 0)
	equal(t, "count", s.Len(), 0)
}

func TestEventHandler_Predicates(t *testing.T) {
	yes := predicate.NewPredicateFuncs(func(client.Object) bool { return true })
	odd := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetResourceVersion() != "2" })
	s := newFixture(yes, odd)
	s.created(t, object("a", "1", "1"), true)
	s.created(t, object("b", "2", "2"), true)
	equal(t, "creations: all predicates must accept", s.queued(), []string{"ns/a"})
	equal(t, "CAUSE-20 rejected events are recorded", s.GetOrCreate("2").ExistedAtStart, true)

	s.updated(t, object("b", "2", "2"), object("b", "2", "3"))
	s.updated(t, object("a", "1", "1"), object("a", "1", "2"))
	equal(t, "updates: all predicates must accept", s.queued(), []string{"ns/b"})

	s.deleted(t, object("b", "2", "2"), false)
	equal(t, "B-04 deletions are always enqueued", s.queued(), []string{"ns/b"})
	equal(t, "B-04 tombstone", takeLeft(s.Store, "b"), []string{"2@2"})
}

// New events must not wait for all objects of the first listing.
func TestEventHandler_FirstListingHasLowPriority(t *testing.T) {
	s := objectstate.New[bool](objectstate.Options{})
	events := s.EventHandler(nil)
	queue := priorityqueue.New[reconcile.Request](t.Name())
	defer queue.ShutDown()
	for _, name := range []string{"old1", "old2"} {
		events.Create(t.Context(), event.CreateEvent{Object: object(name, name, "1"), IsInInitialList: true}, queue)
	}
	events.Create(t.Context(), event.CreateEvent{Object: object("new", "new", "2")}, queue)
	var order []string
	for range 3 {
		request, _ := queue.Get()
		order = append(order, request.Name)
		queue.Done(request)
	}
	equal(t, "first", order[0], "new")
}

// Predicates that compare two states do not recognize the start of a deletion or a replaced object.
func TestEventHandler_DeletionsIgnorePredicates(t *testing.T) {
	for _, test := range []struct {
		name      string
		predicate predicate.Predicate
	}{
		{"generations", predicate.GenerationChangedPredicate{}},
		{"labels", predicate.LabelChangedPredicate{}},
		{"nothing", predicate.NewPredicateFuncs(func(client.Object) bool { return false })},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newFixture(test.predicate)
			s.created(t, object("a", "1", "1"), true)
			s.queued()
			s.updated(t, object("a", "1", "1"), object("a", "1", "2"))
			equal(t, "updates", len(s.queued()), 0)

			deleted := object("a", "1", "3")
			deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			s.updated(t, object("a", "1", "2"), deleted)
			equal(t, "B-04 the start of a deletion is enqueued", s.queued(), []string{"ns/a"})
			s.updated(t, deleted, deleted)
			equal(t, "a resync during the deletion", len(s.queued()), 0)

			s.updated(t, deleted, object("a", "2", "9"))
			equal(t, "B-06 a replacement is enqueued", s.queued(), []string{"ns/a"})
			equal(t, "B-06 tombstone of the old object", takeLeft(s.Store, "a"), []string{"1@3"})
		})
	}
}

func TestIsSkipped(t *testing.T) {
	s := newFixture(predicate.GenerationChangedPredicate{})
	first, second := object("a", "1", "1"), object("a", "1", "2")
	s.created(t, first, false)
	equal(t, "an accepted event", s.IsSkipped(first), false)
	s.updated(t, first, second) // the generation is the same
	equal(t, "a rejected event", s.IsSkipped(second), true)
	equal(t, "another version", s.IsSkipped(first), false)
	s.MarkStarted(nameOf("a"))
	equal(t, "a reconcile has started", s.IsSkipped(second), false)
	s.updated(t, second, second)
	equal(t, "a resync", s.IsSkipped(second), false)
}

// Only events that the predicates accept call reconcile handlers. As in controller-runtime, these include resyncs.
func TestEventHandler_MarksAcceptedEvents(t *testing.T) {
	accepts := predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetResourceVersion() != "3" })
	store := objectstate.New[bool](objectstate.Options{TrackDirty: true, MarkDeletions: true})
	s := &fixture{store, store.EventHandler(nil, accepts), &recorder{}}
	for _, step := range []struct {
		name string
		do   func()
		want int
	}{
		{"a creation", func() { s.created(t, object("a", "1", "1"), false) }, 1},
		{"an accepted update", func() { s.updated(t, object("a", "1", "1"), object("a", "1", "2")) }, 1},
		{"a rejected update", func() { s.updated(t, object("a", "1", "2"), object("a", "1", "3")) }, 0},
		{"a rejected resync", func() { s.updated(t, object("a", "1", "3"), object("a", "1", "3")) }, 0},
		{"another update", func() { s.updated(t, object("a", "1", "3"), object("a", "1", "4")) }, 1},
		{"a resync", func() { s.updated(t, object("a", "1", "4"), object("a", "1", "4")) }, 1},
		{"a deletion", func() { s.deleted(t, object("a", "1", "4"), false) }, 1},
		{"a rejected creation", func() { s.created(t, object("a", "2", "3"), false) }, 0},
		{"a rejected deletion", func() { s.deleted(t, object("a", "2", "3"), false) }, 0},
	} {
		step.do()
		if got := len(s.TakeForeignChanges(nameOf("a"), "1", "")); got != step.want {
			t.Errorf("%s: %d changes, want %d", step.name, got, step.want)
		}
	}
}
