package engine

import (
	"fmt"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Events say which Events are posted by themselves.
type Events int

const (
	// EventsTransitions are for when a handler has failed for good, and when it has succeeded after it had failed.
	EventsTransitions Events = iota
	// EventsOff are none.
	EventsOff
	// EventsSteps are for each attempt of each handler.
	EventsSteps
)

// The greatest lengths of the texts of an Event, in bytes.
const (
	maxNote   = 1024
	maxReason = 128
)

// notifier posts Events about the object of a cycle.
func (e *Engine) notifier(c *cycle) func(eventType, reason, action, note string, args ...any) {
	return e.notifierFor(c.before)
}

// notifierFor posts Events that the server accepts: what is too long is cut. There are none about Events: each would be
// about the one before.
func (e *Engine) notifierFor(obj client.Object) func(eventType, reason, action, note string, args ...any) {
	aboutEvents := e.GVK.Kind == "Event" && (e.GVK.Group == corev1.GroupName || e.GVK.Group == eventsv1.GroupName)
	return func(eventType, reason, action, note string, args ...any) {
		if e.Recorder == nil || aboutEvents {
			return
		}
		note = fmt.Sprintf(note, args...)
		e.Recorder.Eventf(obj, nil, eventType, shortened(reason, maxReason), shortened(action, maxReason), "%s", shortened(note, maxNote))
	}
}

// announce posts what people should know about how an attempt has ended. Attempts that are made again are no
// news: a handler that fails ten thousand times is one Event, or none.
func (e *Engine) announce(c *cycle, id string, before progress.Record, outcome progress.Outcome) {
	steps := e.Events == EventsSteps
	if e.Events == EventsOff || outcome.Interrupted || outcome.Waiting || !outcome.Final && !steps {
		return
	}
	notify := e.notifier(c)
	// The action is the handler: Events that differ only in their notes are taken for one.
	switch {
	case !outcome.Final:
		notify("Warning", "HandlerRetries", id, "%s: %v", id, outcome.Err)
	case !outcome.Success:
		notify("Warning", "HandlerFailed", id, "%s: %v", id, outcome.Err)
	case outcome.Err != nil && steps:
		notify("Warning", "HandlerIgnored", id, "%s: %v", id, outcome.Err)
	case before.Message != "":
		notify("Normal", "HandlerRecovered", id, "%s has succeeded; failed attempts before that: %d", id, before.Retries)
	case steps:
		notify("Normal", "HandlerSucceeded", id, "%s", id)
	}
}

// shortened cuts a text in the middle, as the beginning and the end of an error tell most, and never a character.
func shortened(text string, limit int) string {
	const gap = "..."
	if len(text) <= limit {
		return text
	}
	head := (limit - len(gap)) / 2
	tail := len(text) - (limit - len(gap) - head)
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + gap + text[tail:]
}
