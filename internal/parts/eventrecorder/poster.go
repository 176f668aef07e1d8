package eventrecorder

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Level selects the Events that a [Poster] posts automatically.
type Level int

const (
	// Transitions posts permanent failures, and successes after failures.
	Transitions Level = iota
	// Off disables automatic Events.
	Off
	// Steps posts the outcome of each attempt of each handler.
	Steps
)

// Poster posts Events about the objects of one kind. It is safe for concurrent use.
type Poster struct {
	// Name is the controller's name, a label of the metrics.
	Name   string
	GVK    schema.GroupVersionKind
	Client client.Client
	// Recorder posts the Events. Without it, nothing is posted.
	Recorder events.EventRecorder
	Level    Level
	Limiter  Limiter
	// LoggerFor returns the logger for an object.
	LoggerFor func(client.Object) logr.Logger
}

// PostOutcome posts the Event about a cause handler's outcome. If the attempt will be retried, there is only an Event with the level
// [Steps]. before is the record before the attempt.
func (p *Poster) PostOutcome(obj client.Object, id string, before progress.Record, outcome progress.Outcome) {
	p.postOutcome(obj, id, before, outcome, outcome.Final && !outcome.Success, before.Message != "" && outcome.Err == nil)
}

// PostTransition posts the Event about the outcome of a reconcile handler, daemon or timer. Since these are called over and over again, the
// level [Transitions] posts only the first permanent failure, and the first success after it. PostTransition returns whether the handler
// has failed.
func (p *Poster) PostTransition(obj client.Object, id string, failed bool, before progress.Record, outcome progress.Outcome) (fails bool) {
	switch {
	case outcome.Interrupted, !outcome.Final, outcome.Success && outcome.Err != nil: // there is no result yet
		fails = failed
	default:
		fails = !outcome.Success
	}
	if obj != nil { // nil for a deleted object
		p.postOutcome(obj, id, before, outcome, fails && !failed, failed && !fails)
	}
	return fails
}

// postOutcome posts the Event about an outcome. fails and recovers mark the two transitions.
func (p *Poster) postOutcome(obj client.Object, id string, before progress.Record, outcome progress.Outcome, fails, recovers bool) {
	steps := p.Level == Steps
	if p.Level == Off || outcome.Interrupted || outcome.Waiting || !outcome.Final && !steps {
		return
	}
	notify := func(priority Priority, eventType, reason, note string, args ...any) {
		p.Post(obj, priority, eventType, reason, id, fmt.Sprintf(note, args...))
	}
	switch {
	case !outcome.Final:
		notify(Detail, "Warning", "HandlerRetries", "%s: %v", id, outcome.Err)
	case !outcome.Success && fails:
		notify(Transition, "Warning", "HandlerFailed", "%s: %v", id, outcome.Err)
	case !outcome.Success && steps:
		notify(Detail, "Warning", "HandlerFailed", "%s: %v", id, outcome.Err)
	case !outcome.Success:
	case outcome.Err != nil && steps:
		notify(Detail, "Warning", "HandlerIgnored", "%s: %v", id, outcome.Err)
	case recovers && before.Retries > 0:
		notify(Transition, "Normal", "HandlerRecovered", "%s has succeeded; failed attempts before that: %d", id, before.Retries)
	case recovers:
		notify(Transition, "Normal", "HandlerRecovered", "%s has succeeded; before that, it had failed permanently", id)
	case steps:
		notify(Detail, "Normal", "HandlerSucceeded", "%s", id)
	}
}

// NotifierFor returns the function that an object's handlers use to post Events about this or a different object.
func (p *Poster) NotifierFor(obj client.Object) func(about client.Object, eventType, reason, action, note string, args ...any) {
	return func(about client.Object, eventType, reason, action, note string, args ...any) {
		gvk, related, err := p.GVK, (*metav1.PartialObjectMetadata)(nil), checkEvent(eventType, reason, action)
		if about != nil && err == nil {
			gvk, err = apiutil.GVKForObject(about, p.Client.Scheme())
			related = referenceTo(obj, p.GVK)
			if err == nil && about.GetUID() == "" {
				err = fmt.Errorf("the %s %s has no uid: read the object first", gvk.Kind, client.ObjectKeyFromObject(about))
			}
		}
		if err != nil {
			p.LoggerFor(obj).Info("Failed to post an Event", "error", err.Error(), "type", eventType, "reason", reason, "action", action)
			return
		}
		priority := Detail
		if eventType == corev1.EventTypeWarning {
			priority = Problem
		}
		p.postAbout(obj, referenceTo(cmp.Or(about, obj), gvk), related, priority, eventType, reason, action, fmt.Sprintf(note, args...))
	}
}

// referenceTo returns a reference to an object for an Event.
func referenceTo(obj client.Object, gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	reference := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
	}}
	reference.SetGroupVersionKind(gvk)
	return reference
}

// checkEvent returns an error if the API server would reject an Event.
func checkEvent(eventType, reason, action string) error {
	switch {
	case eventType != corev1.EventTypeNormal && eventType != corev1.EventTypeWarning:
		return fmt.Errorf("the type must be Normal or Warning, got %q", eventType)
	case reason == "":
		return errors.New("the reason is empty: pass one word that states why, such as Resized")
	case action == "":
		return errors.New("the action is empty: pass one word that states what was done, such as Resize")
	}
	return nil
}

// Warn posts a Warning about the engine's work, unless automatic Events are disabled.
func (p *Poster) Warn(obj client.Object, reason, note string) {
	if p.Level != Off {
		p.Post(obj, Transition, corev1.EventTypeWarning, reason, "Handle", note)
	}
}

// WarnAbout is like Warn for an object that may be of a different kind. obj must have its kind set.
func (p *Poster) WarnAbout(obj *metav1.PartialObjectMetadata, reason, note string) {
	if p.Level != Off {
		p.postAbout(obj, obj, nil, Transition, corev1.EventTypeWarning, reason, "Handle", note)
	}
}

// Post posts an Event about an object of the kind.
func (p *Poster) Post(obj client.Object, priority Priority, eventType, reason, action, note string) {
	p.postAbout(obj, referenceTo(obj, p.GVK), nil, priority, eventType, reason, action, note)
}

// postAbout posts an Event, unless there are too many about the object. It never posts Events about Events, because each of them would
// cause the next. related is the handled object if the Event is about a different one.
func (p *Poster) postAbout(obj client.Object, regarding, related *metav1.PartialObjectMetadata, priority Priority, eventType, reason, action, note string) {
	gvk := regarding.GroupVersionKind()
	if p.Recorder == nil || gvk.Kind == "Event" && (gvk.Group == corev1.GroupName || gvk.Group == eventsv1.GroupName) {
		return
	}
	reason, action = TruncateReason(reason), TruncateReason(action)
	key := SeriesKey{Type: eventType, Reason: reason, Action: action, ResourceVersion: regarding.GetResourceVersion()}
	var relatedObject runtime.Object // a nil pointer in the interface would not be nil
	if related != nil {
		key.Related, relatedObject = related.GetUID(), related
	}
	permit, ok, first := p.Limiter.Allow(regarding.GetUID(), key, note, priority)
	if !ok {
		metrics.UnpostedEvents.WithLabelValues(p.Name).Inc()
		logger := p.LoggerFor(obj)
		if !first { // the first one shows that Events are lost
			logger = logger.V(1)
		}
		logger.Info("Dropped an Event; there are too many about the object", "type", eventType, "reason", reason, "action", action, "note", note)
		return
	}
	p.Recorder.Eventf(regarding, relatedObject, eventType, reason, variantOf(action, permit.Variant), "%s", NoteWithDropped(note, permit.Dropped))
}
