package eventwatch

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/kopf-runtime/kopf-runtime/pkg/clusterevents"
)

// fieldSelector returns the part of a selector that the API server evaluates, for the Events about one kind. reporters are the reporting
// controllers of our own Events.
func fieldSelector(s clusterevents.Selector, kind string, reporters ...string) fields.Selector {
	selectors := []fields.Selector{fields.OneTermEqualSelector("involvedObject.kind", kind)}
	if s.WarningsOnly {
		selectors = append(selectors, fields.OneTermEqualSelector("type", corev1.EventTypeWarning))
	}
	if len(s.Reasons) == 1 {
		selectors = append(selectors, fields.OneTermEqualSelector("reason", s.Reasons[0]))
	}
	if !s.OwnEvents {
		for _, reporter := range reporters {
			selectors = append(selectors, fields.OneTermNotEqualSelector("reportingComponent", reporter))
		}
	}
	return fields.AndSelectors(selectors...)
}

// matches reports whether an Event's type, reason and reporting controller match a selector.
func matches(s clusterevents.Selector, event *corev1.Event, reporters ...string) bool {
	switch {
	case s.WarningsOnly && event.Type != corev1.EventTypeWarning:
		return false
	case len(s.Reasons) > 0 && !slices.Contains(s.Reasons, event.Reason):
		return false
	default:
		return s.OwnEvents || !slices.Contains(reporters, event.ReportingController)
	}
}

// LastSeen returns when an Event last occurred: the newest of its times, or its creation time if it has no others.
func LastSeen(event *corev1.Event) (last time.Time) {
	times := []time.Time{event.FirstTimestamp.Time, event.LastTimestamp.Time, event.EventTime.Time}
	if event.Series != nil {
		times = append(times, event.Series.LastObservedTime.Time)
	}
	for _, at := range times {
		if at.After(last) {
			last = at
		}
	}
	if last.IsZero() {
		return event.CreationTimestamp.Time
	}
	return last
}

// Count returns how often an Event has occurred. It is at least 1.
func Count(event *corev1.Event) int32 {
	if event.Series != nil {
		return max(event.Series.Count, event.Count, 1)
	}
	return max(event.Count, 1)
}

// OccurredAgain reports whether an Event has occurred again since an earlier state.
func OccurredAgain(event, earlier *corev1.Event) bool {
	return Count(event) > Count(earlier) || LastSeen(event).After(LastSeen(earlier))
}
