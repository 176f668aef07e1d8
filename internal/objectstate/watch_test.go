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

// A recorder is a queue that notes what is added.
type recorder struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	names []string
}

func (r *recorder) Add(request reconcile.Request) { r.names = append(r.names, request.String()) }

// A stage is an inventory that is fed by a watch.
type stage struct {
	*objectstate.Inventory
	handler.EventHandler
	queue *recorder
}

func newStage(predicates ...predicate.Predicate) *stage {
	i := objectstate.New(objectstate.Wants{})
	return &stage{i, i.EventHandler(nil, predicates...), &recorder{}}
}

func (s *stage) created(t *testing.T, obj *corev1.ConfigMap, listed bool) {
	s.Create(t.Context(), event.CreateEvent{Object: obj, IsInInitialList: listed}, s.queue)
}

func (s *stage) updated(t *testing.T, before, after *corev1.ConfigMap) {
	s.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, s.queue)
}

func (s *stage) deleted(t *testing.T, obj *corev1.ConfigMap, unknown bool) {
	s.Delete(t.Context(), event.DeleteEvent{Object: obj, DeleteStateUnknown: unknown}, s.queue)
}

func (s *stage) queued() []string {
	names := s.queue.names
	s.queue.names = nil
	return names
}

func TestEventsAreNotedAndWake(t *testing.T) {
	s := newStage()
	s.created(t, object("a", "1", "1"), true)
	s.created(t, object("b", "2", "2"), false)
	equal(t, "creations wake", s.queued(), []string{"ns/a", "ns/b"})
	equal(t, "CAUSE-20 MIG-14 listed at the start", s.Recall("1").Listed, true)
	equal(t, "CAUSE-20 MIG-14 appeared later", s.Recall("2").Listed, false)

	s.updated(t, object("a", "1", "1"), object("a", "1", "3"))
	s.updated(t, object("a", "1", "3"), object("a", "1", "3"))
	equal(t, "MIG-14 changes and resyncs wake", s.queued(), []string{"ns/a", "ns/a"})
	equal(t, "CAUSE-22 MIG-14 still listed", s.Recall("1").Listed, true)
	equal(t, "nothing is buried", len(exhumed(s.Inventory, "a")), 0)
	equal(t, "count", s.Len(), 2)
}

func TestObjectsFirstSeenInAnUpdate(t *testing.T) {
	s := newStage()
	s.updated(t, object("a", "1", "1"), object("a", "1", "2"))
	equal(t, "they are noted", s.Len(), 1)
	equal(t, "CAUSE-20 they are not initial", s.Recall("1").Listed, false)
	equal(t, "they wake", s.queued(), []string{"ns/a"})
}

func TestDeletionsAreNoticed(t *testing.T) {
	for _, test := range []struct {
		name    string
		unknown bool
	}{
		{"B-04 by an event", false},
		{"B-04 SE-08 by a tombstone, after a lost watch", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStage()
			s.created(t, object("a", "1", "1"), true)
			s.queued()
			s.deleted(t, object("a", "1", "4"), test.unknown)
			equal(t, "it wakes", s.queued(), []string{"ns/a"})
			equal(t, "the last known state", exhumed(s.Inventory, "a"), []string{"1@4"})
		})
	}
}

func TestDeletionsByAnotherIdentityAreNoticed(t *testing.T) {
	s := newStage()
	s.created(t, object("a", "1", "1"), true)
	s.Recall("1").Handled = true
	s.queued()
	s.updated(t, object("a", "1", "1"), object("a", "2", "9"))
	equal(t, "B-04 B-06 it wakes", s.queued(), []string{"ns/a"})
	equal(t, "B-04 B-06 the old one is buried", exhumed(s.Inventory, "a"), []string{"1@1"})
	equal(t, "B-06 MEMO-04 the new one is another", *s.Recall("2"), objectstate.Memory{First: "9"})
	equal(t, "B-06 the old one is still remembered, for the farewell", s.Recall("1").Handled, true)
}

func TestDeletionsOfStrangers(t *testing.T) {
	s := newStage()
	s.deleted(t, object("a", "1", "4"), true)
	equal(t, "it wakes", s.queued(), []string{"ns/a"})
	equal(t, "nothing is buried", len(exhumed(s.Inventory, "a")), 0)
	equal(t, "nothing is remembered", s.Len(), 0)
}

func TestPredicatesDecideOnlyWhoIsWoken(t *testing.T) {
	yes := predicate.NewPredicateFuncs(func(client.Object) bool { return true })
	odd := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetResourceVersion() != "2" })
	s := newStage(yes, odd)
	s.created(t, object("a", "1", "1"), true)
	s.created(t, object("b", "2", "2"), true)
	equal(t, "creations: all predicates have to agree", s.queued(), []string{"ns/a"})
	equal(t, "CAUSE-20 those that wake nobody are noted, too", s.Recall("2").Listed, true)

	s.updated(t, object("b", "2", "2"), object("b", "2", "3"))
	s.updated(t, object("a", "1", "1"), object("a", "1", "2"))
	equal(t, "changes: all predicates have to agree", s.queued(), []string{"ns/b"})

	s.deleted(t, object("b", "2", "2"), false)
	equal(t, "B-04 deletions wake whatever the predicates say", s.queued(), []string{"ns/b"})
	equal(t, "B-04 and are noted", exhumed(s.Inventory, "b"), []string{"2@2"})
}

// New work does not wait behind ten thousand objects that were there before.
func TestTheListingAtTheStartQueuesBehindAllElse(t *testing.T) {
	i := objectstate.New(objectstate.Wants{})
	events := i.EventHandler(nil)
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

// To predicates that compare two states, these are changes like any other, or none at all.
func TestReplacementsAndHeldUpDeletionsWakeWhateverThePredicatesSay(t *testing.T) {
	for _, test := range []struct {
		name string
		wake predicate.Predicate
	}{
		{"generations", predicate.GenerationChangedPredicate{}},
		{"labels", predicate.LabelChangedPredicate{}},
		{"nothing", predicate.NewPredicateFuncs(func(client.Object) bool { return false })},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(test.wake)
			s.created(t, object("a", "1", "1"), true)
			s.queued()
			s.updated(t, object("a", "1", "1"), object("a", "1", "2"))
			equal(t, "changes do not wake", len(s.queued()), 0)

			deleted := object("a", "1", "3")
			deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			s.updated(t, object("a", "1", "2"), deleted)
			equal(t, "B-04 a deletion that is held up wakes", s.queued(), []string{"ns/a"})
			s.updated(t, deleted, deleted)
			equal(t, "once", len(s.queued()), 0)

			s.updated(t, deleted, object("a", "2", "9"))
			equal(t, "B-06 a replacement wakes", s.queued(), []string{"ns/a"})
			equal(t, "B-06 the old one is buried", exhumed(s.Inventory, "a"), []string{"1@3"})
		})
	}
}
