package engine

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
)

// clusterEvent returns a state of an Event: "a2" is the second state of a.
func clusterEvent(state string) *invoke.ClusterEvent {
	return &invoke.ClusterEvent{Event: &corev1.Event{ObjectMeta: metav1.ObjectMeta{UID: types.UID(state[:1]), Name: state}}}
}

func clusterEventList(states string) (all []*invoke.ClusterEvent) {
	for state := range strings.FieldsSeq(states) {
		all = append(all, clusterEvent(state))
	}
	return all
}

func textOfClusterEvents(all []*invoke.ClusterEvent) string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = one.Name
	}
	return strings.Join(names, " ")
}

func TestAppendClusterEvent(t *testing.T) {
	for _, test := range []struct{ name, waiting, event, want string }{
		{"the first Event", "", "a1", "a1"},
		{"another Event", "a1", "b1", "a1 b1"},
		{"a newer state of the last Event", "a1 b1", "b2", "a1 b2"},
		{"a newer state of an earlier Event waits after the others", "a1 b1", "a2", "a1 b1 a2"},
		{"only the oldest and the newest state wait", "a1 b1 a2 c1", "a3", "a1 b1 c1 a3"},
	} {
		waiting := clusterEventList(test.waiting)
		next, dropped := appendClusterEvent(waiting, clusterEvent(test.event))
		if got := textOfClusterEvents(next); got != test.want || dropped {
			t.Errorf("%s: %q (dropped: %t), want %q", test.name, got, dropped, test.want)
		}
		if got := textOfClusterEvents(waiting); got != test.waiting { // others may be reading it
			t.Errorf("%s: the list has changed from %q to %q", test.name, test.waiting, got)
		}
	}
}

func TestAppendClusterEvent_DropsTheOldest(t *testing.T) {
	var waiting []*invoke.ClusterEvent
	var dropped bool
	for i := range maxClusterEvents + 1 {
		if dropped {
			t.Fatalf("Event %d was dropped", i-1)
		}
		event := clusterEvent("x")
		event.UID, event.Name = types.UID(fmt.Sprint(i)), fmt.Sprint(i)
		waiting, dropped = appendClusterEvent(waiting, event)
	}
	if !dropped || len(waiting) != maxClusterEvents || waiting[0].Name != "1" {
		t.Errorf("dropped: %t, %d Events wait, the first is %s", dropped, len(waiting), waiting[0].Name)
	}
}

func TestWithoutClusterEvent(t *testing.T) {
	waiting := clusterEventList("a1 b1 a2")
	if got := textOfClusterEvents(withoutClusterEvent(waiting, waiting[0])); got != "b1 a2" {
		t.Errorf("%q is left, want the newer state, too", got)
	}
	if got := textOfClusterEvents(waiting); got != "a1 b1 a2" {
		t.Errorf("the list has changed to %q", got)
	}
}
