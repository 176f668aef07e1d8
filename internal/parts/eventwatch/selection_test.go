package eventwatch

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/kopf-runtime/kopf-runtime/pkg/clusterevents"
)

func TestFieldSelector_AgreesWithMatches(t *testing.T) {
	events := []corev1.Event{
		{Type: "Warning", Reason: "BackOff", ReportingController: "kubelet"},
		{Type: "Warning", Reason: "Failed", ReportingController: "kubelet"},
		{Type: "Normal", Reason: "BackOff", ReportingController: "kubelet"},
		{Type: "Warning", Reason: "BackOff", ReportingController: "kopf-runtime"},
		{Type: "Warning", Reason: "BackOff"},
	}
	for text, test := range map[string]struct {
		selector clusterevents.Selector
		matches  []bool
		onServer []bool // nil if it is the same
	}{
		"involvedObject.kind=Pod,reportingComponent!=kopf-runtime":                             {clusterevents.Selector{}, []bool{true, true, true, false, true}, nil},
		"involvedObject.kind=Pod":                                                              {clusterevents.Selector{OwnEvents: true}, []bool{true, true, true, true, true}, nil},
		"involvedObject.kind=Pod,type=Warning,reportingComponent!=kopf-runtime":                {clusterevents.Selector{WarningsOnly: true}, []bool{true, true, false, false, true}, nil},
		"involvedObject.kind=Pod,type=Warning,reason=BackOff,reportingComponent!=kopf-runtime": {clusterevents.Selector{WarningsOnly: true, Reasons: []string{"BackOff"}}, []bool{true, false, false, false, true}, nil},
		"involvedObject.kind=Pod,type=Warning": {
			clusterevents.Selector{WarningsOnly: true, OwnEvents: true, Reasons: []string{"Failed", "Other"}}, []bool{false, true, false, false, false}, []bool{true, true, false, true, true},
		},
	} {
		t.Run(text, func(t *testing.T) {
			selector := fieldSelector(test.selector, "Pod", "kopf-runtime")
			if selector.String() != text {
				t.Errorf("the field selector is %q", selector)
			}
			onServer := test.onServer
			if onServer == nil {
				onServer = test.matches
			}
			for i, event := range events {
				if got := matches(test.selector, &event, "kopf-runtime"); got != test.matches[i] {
					t.Errorf("Event %d: matches returns %t", i, got)
				}
				values := fields.Set{"involvedObject.kind": "Pod", "type": event.Type, "reason": event.Reason, "reportingComponent": event.ReportingController}
				if got := selector.Matches(values); got != onServer[i] {
					t.Errorf("Event %d: the field selector returns %t", i, got)
				}
			}
		})
	}
}

func TestLastSeen_OfAnEventThatWasPostedLater(t *testing.T) {
	created, occurred := time.Unix(2000, 0), time.Unix(1000, 0)
	event := corev1.Event{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}}
	if got := LastSeen(&event); !got.Equal(created) {
		t.Errorf("LastSeen of an Event without times = %v, want the creation %v", got, created)
	}
	event.LastTimestamp = metav1.NewTime(occurred)
	if got := LastSeen(&event); !got.Equal(occurred) {
		t.Errorf("LastSeen = %v, want %v", got, occurred)
	}
}

func TestLastSeen_IsTheLatestTime(t *testing.T) {
	early, late := time.Unix(1000, 0), time.Unix(2000, 0)
	for name, event := range map[string]corev1.Event{
		"creation":   {ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(late)}},
		"count":      {ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(early)}, LastTimestamp: metav1.NewTime(late)},
		"event time": {EventTime: metav1.NewMicroTime(late), LastTimestamp: metav1.NewTime(early)},
		"series":     {EventTime: metav1.NewMicroTime(early), Series: &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(late)}},
	} {
		if got := LastSeen(&event); !got.Equal(late) {
			t.Errorf("%s: got %s, want %s", name, got, late)
		}
	}
}

func TestCount_IsAtLeastOne(t *testing.T) {
	for want, event := range map[int32]corev1.Event{
		1: {}, 2: {Count: 2}, 3: {Series: &corev1.EventSeries{Count: 3}}, 4: {Count: 4, Series: &corev1.EventSeries{Count: 3}},
	} {
		if got := Count(&event); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
}
