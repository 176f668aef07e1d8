package conditions_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

// Two operators own different condition types of one object while users edit its spec. Each operator makes 1000 random
// writes based on the version that it last read. A watch receives each version.
func TestWrite_TwoWriters(t *testing.T) {
	widget := onServer(t, "Widget")
	const rounds = 1000
	seen := observe(t, widget)

	finals := [2]map[string]metav1.ConditionStatus{}
	var requests int
	var group sync.WaitGroup
	requests = countWrites(func() {
		for writer := range finals {
			group.Go(func() { finals[writer] = writer1000(t, widget.DeepCopy(), writer, rounds) })
		}
		group.Go(func() { editSpec(t, widget.DeepCopy(), 50) })
		group.Wait()
	})

	last := widget.DeepCopy()
	must(t, k8s.Get(t.Context(), client.ObjectKeyFromObject(last), last))
	want := maps.Clone(finals[0])
	maps.Copy(want, finals[1])
	got := map[string]metav1.ConditionStatus{}
	for _, c := range setOf(t, last).List() {
		got[c.Type] = c.Status
	}
	equal(t, "final conditions", got, want)
	states, changes := check(t, seen, last.GetResourceVersion())
	t.Logf("%d write requests with conflicts, %d states with %d transitions", requests, states, changes)
	if states < rounds/2 || changes < rounds/4 {
		t.Errorf("got %d states and %d transitions, want at least %d and %d", states, changes, rounds/2, rounds/4)
	}
}

// writer1000 sets and removes random conditions of its types and returns the expected final conditions.
func writer1000(t *testing.T, obj *unstructured.Unstructured, writer, rounds int) map[string]metav1.ConditionStatus {
	random := rand.New(rand.NewPCG(uint64(writer), 1))
	statuses := []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}
	mine := map[string]metav1.ConditionStatus{}
	for range rounds {
		conditionType := fmt.Sprintf("Of%d-%d", writer, random.IntN(3))
		status, reason := statuses[random.IntN(3)], []string{"A", "B"}[random.IntN(2)]
		remove := random.IntN(20) == 0
		change := func(s *conditions.Set) {
			if remove {
				s.Remove(conditionType)
			} else {
				s.Set(metav1.Condition{Type: conditionType, Status: status, Reason: reason})
			}
		}
		for { // an operator would retry after many conflicts
			err := conditions.Write(t.Context(), k8s, obj, change)
			if err == nil {
				break
			}
			if t.Context().Err() != nil || client.IgnoreNotFound(err) == nil {
				t.Errorf("write of writer %d failed: %v", writer, err)
				return mine
			}
		}
		if remove {
			delete(mine, conditionType)
		} else {
			mine[conditionType] = status
		}
		// A set without changes must not be written.
		version := obj.GetResourceVersion()
		if err := conditions.Write(t.Context(), k8s, obj, change); err != nil || obj.GetResourceVersion() != version {
			t.Errorf("writing the same conditions created version %s after %s: %v", obj.GetResourceVersion(), version, err)
		}
	}
	return mine
}

// editSpec increases the generation with each edit.
func editSpec(t *testing.T, obj *unstructured.Unstructured, n int) {
	for i := range n {
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec": {"size": %d}}`, i+10))
		if err := k8s.Patch(t.Context(), obj, patch); err != nil {
			t.Error(err)
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

func observe(t *testing.T, obj *unstructured.Unstructured) <-chan watch.Event {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(obj.GroupVersionKind())
	watcher, err := k8s.Watch(t.Context(), list, client.InNamespace("default"),
		client.MatchingFields{"metadata.name": obj.GetName()},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: obj.GetResourceVersion()}})
	must(t, err)
	t.Cleanup(watcher.Stop)
	events := make(chan watch.Event, 1<<14) // the watch may be slower than the test
	go func() {
		for event := range watcher.ResultChan() {
			events <- event
		}
	}()
	return events
}

// check compares each version with the previous one.
func check(t *testing.T, events <-chan watch.Event, last string) (states, transitions int) {
	t.Helper()
	before := map[string]metav1.Condition{}
	for {
		var event watch.Event
		select {
		case event = <-events:
		case <-time.After(20 * time.Second):
			t.Fatalf("the watch did not receive version %s", last)
		}
		obj, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type != watch.Modified {
			t.Fatalf("unexpected event %s of %T", event.Type, event.Object)
		}
		states++
		now := map[string]metav1.Condition{}
		different := 0
		for _, c := range setOf(t, obj).List() {
			old, existed := before[c.Type]
			now[c.Type] = c
			if c != old {
				different++
			}
			if !existed {
				continue
			}
			if old.Status == c.Status && !c.LastTransitionTime.Equal(&old.LastTransitionTime) {
				t.Errorf("%s: lastTransitionTime changed without a transition", c.Type)
			}
			if c.ObservedGeneration < old.ObservedGeneration {
				t.Errorf("%s: observedGeneration decreased from %d to %d", c.Type, old.ObservedGeneration, c.ObservedGeneration)
			}
			if old.Status != c.Status {
				transitions++
			}
		}
		for conditionType := range before {
			if _, exists := now[conditionType]; !exists {
				different++
			}
		}
		if different > 1 {
			t.Errorf("one write changed %d conditions, want only its own", different)
		}
		if before = now; obj.GetResourceVersion() == last {
			return states, transitions
		}
	}
}
