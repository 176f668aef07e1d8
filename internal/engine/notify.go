package engine

import (
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/eventrecorder"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
)

// notifierFor posts the Events of handlers about an object.
func (e *Engine) notifierFor(obj client.Object) func(eventType, reason, action, note string, args ...any) {
	return func(eventType, reason, action, note string, args ...any) {
		if why := unpostable(eventType, reason, action); why != "" {
			e.logOf(obj).Info("Warning: an Event is not posted: "+why, "type", eventType, "reason", reason, "action", action)
			return
		}
		e.post(obj, false, eventType, reason, action, fmt.Sprintf(note, args...))
	}
}

// unpostable says what the API server does not like about an Event.
func unpostable(eventType, reason, action string) string {
	switch {
	case eventType != corev1.EventTypeNormal && eventType != corev1.EventTypeWarning:
		return "its type has to be Normal or Warning"
	case reason == "":
		return "it has no reason: say why in one word, such as Resized"
	case action == "":
		return "it has no action: say what was done in one word, such as Resize"
	}
	return ""
}

// post posts an Event if there are not too many about the object: urgent ones are few, and go before the others. There are none about Events: each would be
// about the one before.
func (e *Engine) post(obj client.Object, urgent bool, eventType, reason, action, note string) {
	if e.Recorder == nil || e.GVK.Kind == "Event" && (e.GVK.Group == corev1.GroupName || e.GVK.Group == eventsv1.GroupName) {
		return
	}
	reason, action = eventrecorder.TruncateReason(reason), eventrecorder.TruncateReason(action)
	unsaid, ok := e.eventLimiter.Allow(obj.GetUID(), eventrecorder.SeriesKey{
		Type: eventType, Reason: reason, Action: action, ResourceVersion: obj.GetResourceVersion(),
	}, urgent)
	if !ok {
		metrics.UnpostedEvents.WithLabelValues(e.Name).Inc()
		e.logOf(obj).V(1).Info("An Event is not posted: there are too many about the object", "type", eventType, "reason", reason, "action", action, "note", note)
		return
	}
	about := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
	}}
	about.SetGroupVersionKind(e.GVK)
	e.Recorder.Eventf(about, nil, eventType, reason, action, "%s", eventrecorder.NoteWithDropped(note, unsaid))
}

// logOf is for what happens to an object outside of cycles.
func (e *Engine) logOf(obj client.Object) logr.Logger {
	return e.Log.WithValues("controller", e.Name, "kind", e.GVK.Kind, "namespace", obj.GetNamespace(), "name", obj.GetName(), "uid", obj.GetUID())
}
