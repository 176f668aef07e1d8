package kopf

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/eventwatch"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/clusterevents"
)

// OnEventAbout adds a handler for Kubernetes Events about the object, or about objects that it owns, such as its pods. The selector chooses
// the Events. The operator watches them without a cache, and lets the API server filter them for the kind, the type and the reason.
// Request.Object is the current state of this kind's object, even if the Event is about an object that it owns. The operator writes the
// handler's changes to Request.Object.
//
// The operator calls the handler once for each Event. If the Event occurs again, the handler is called again, at most once in
// [clusterevents.Selector.Interval]. With [Retries], failed attempts are repeated, and later Events for the handler and the object wait in
// the meantime. If more than 100 of them are waiting, the oldest are dropped. Waiting Events and attempts are only kept in memory. By
// default, the operator ignores Events from before its start or from a pause: see [clusterevents.Selector.Since]. The options are the same
// as for OnEvent handlers, except for [WriteChanges].
func (r *Resource[T]) OnEventAbout(
	id string, events clusterevents.Selector, fn func(ctx context.Context, req *Request[T], event *corev1.Event) error, opts ...HandlerOption,
) *Resource[T] {
	var handler Handler[T]
	if fn != nil {
		handler = func(ctx context.Context, req *Request[T]) error { return handleClusterEvent(ctx, req, events, fn) }
	}
	h := r.newHandler("OnEventAbout", id, handler)
	h.handlerKind, h.events = eventAboutHandler, &kinds.EventSelection{Selector: events, ID: id}
	r.events = append(r.events, h.events)
	return r.addHandler(h, opts)
}

// handleClusterEvent calls a handler's function. It skips an Event from before the start or from a pause if it was already handled or is
// too old. With Since, it stores the handled Events in an annotation of the object.
func handleClusterEvent[T client.Object](
	ctx context.Context, req *Request[T], events clusterevents.Selector, fn func(context.Context, *Request[T], *corev1.Event) error,
) error {
	if req.call == nil || req.call.ClusterEvent == nil {
		return Permanent(errors.New("the handler is called without an Event: use OnEventAbout"))
	}
	event := req.call.ClusterEvent
	key := handledEventsKey(req.Handler, events, event.Event)
	handled := parseHandledEvents(req.Object.GetAnnotations()[key], time.Now())
	if event.Earlier && (time.Since(eventwatch.LastSeen(event.Event)) > events.Since || handled.contains(event.Event)) {
		log.FromContext(ctx).V(1).Info("Ignored an Event from the time before the start, or from a pause", "event", event.Name)
		return nil
	}
	if err := fn(ctx, req, event.Event); err != nil || events.Since == 0 || handled.contains(event.Event) {
		return err
	}
	if isFarAhead(eventwatch.LastSeen(event.Event), time.Now()) {
		return nil // a restart will repeat the Event
	}
	waiting := slices.DeleteFunc(event.Waiting(), func(other *corev1.Event) bool { return handledEventsKey(req.Handler, events, other) != key })
	annotations := req.Object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = handled.with(event.Event, waiting).String()
	req.Object.SetAnnotations(annotations)
	return nil
}

// handledEventsKey returns the annotation for handled Events. With several kinds, each has its own annotation, because Events are only in
// chronological order within a kind.
func handledEventsKey(handler string, events clusterevents.Selector, event *corev1.Event) string {
	if len(events.About) < 2 {
		return validation.AnnotationKey("events.", handler)
	}
	return validation.AnnotationKey("events.", handler+"."+event.InvolvedObject.GroupVersionKind().GroupKind().String())
}

// maxHandledCounts limits the uids in a handler's annotation.
const maxHandledCounts = 100

// handledEvents are the Events that a handler has handled: all those before the time of the newest one, with exceptions in counts.
type handledEvents struct {
	at time.Time // the time of the newest handled Event
	// counts contains the handled Events with this time, because several Events can have the same time. Events up to this time that aren't
	// handled yet are in it too, with the count 0.
	counts []handledCount
}

type handledCount struct {
	uid   types.UID
	count int32
}

// maxEventAhead is how far the clocks of the operator and of an Event's sender may differ. Many users can create Events with any time, and
// some can write the annotation. If we trusted a time in the far future, we would ignore all Events until then.
const maxEventAhead = time.Hour

func isFarAhead(at, now time.Time) bool { return at.After(now.Add(maxEventAhead)) }

// parseHandledEvents decodes an annotation. If it is missing or invalid, no Events count as handled. A uid without a count means all
// occurrences.
func parseHandledEvents(text string, now time.Time) (h handledEvents) {
	at, counts, _ := strings.Cut(text, " ")
	var err error
	if h.at, err = time.Parse(time.RFC3339Nano, at); err != nil || isFarAhead(h.at, now) {
		return handledEvents{}
	}
	for one := range strings.FieldsSeq(counts) {
		if len(h.counts) == maxHandledCounts {
			break
		}
		uid, text, _ := strings.Cut(one, "/")
		count, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			count = math.MaxInt32
		}
		h.counts = append(h.counts, handledCount{types.UID(uid), int32(count)})
	}
	return h
}

// contains reports whether this state of an Event was handled. Without counts, all Events with the stored time count as handled.
func (h handledEvents) contains(event *corev1.Event) bool {
	at := eventwatch.LastSeen(event)
	if at.After(h.at) {
		return false
	}
	if i := slices.IndexFunc(h.counts, func(c handledCount) bool { return c.uid == event.UID }); i >= 0 {
		return eventwatch.Count(event) <= h.counts[i].count
	}
	return at.Before(h.at) || len(h.counts) == 0
}

// with adds a handled Event. waiting contains the Events that this process has received but not handled yet. If there would be too many
// counts, h is returned unchanged, so a restart will repeat the Event.
func (h handledEvents) with(event *corev1.Event, waiting []*corev1.Event) handledEvents {
	at := eventwatch.LastSeen(event)
	result := handledEvents{at: h.at, counts: withoutUID(h.counts, event.UID)}
	if at.After(h.at) {
		result = handledEvents{at: at} // those with the count 0 in h were handled since, or are in waiting
	}
	if at.Equal(result.at) {
		result.counts = append(result.counts, handledCount{event.UID, eventwatch.Count(event)})
	}
	for _, other := range waiting {
		isHandled := h.contains(other) || other.UID == event.UID && !eventwatch.OccurredAgain(other, event)
		if !isHandled && !eventwatch.LastSeen(other).After(result.at) {
			result.counts = append(withoutUID(result.counts, other.UID), handledCount{uid: other.UID})
		}
	}
	if len(result.counts) > maxHandledCounts {
		return h
	}
	return result
}

func withoutUID(counts []handledCount, uid types.UID) []handledCount {
	return slices.DeleteFunc(slices.Clone(counts), func(c handledCount) bool { return c.uid == uid })
}

// String encodes the annotation.
func (h handledEvents) String() string {
	parts := []string{h.at.UTC().Format(time.RFC3339Nano)}
	for _, c := range h.counts {
		parts = append(parts, fmt.Sprintf("%s/%d", c.uid, c.count))
	}
	return strings.Join(parts, " ")
}
