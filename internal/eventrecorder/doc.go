// Package eventrecorder limits and posts Kubernetes Events. Before a [Poster] posts an Event, it asks a [Limiter] and shortens the
// texts with [NoteWithDropped] and [TruncateReason]. It then passes the Event to a recorder: the recorder of the manager, or [CoreV1Recorder], which posts
// Events as kopf does.
//
// A poster posts at most 28 Events about an object in any hour. Events that the recorder only counts are not included. The note of the next posted
// Event contains the number of dropped Events.
//
// Events are best effort. An Event is lost if the API server rejects it or the process ends. The recorders log
// failures.
package eventrecorder
