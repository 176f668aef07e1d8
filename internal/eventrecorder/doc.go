// Package eventrecorder limits and posts Kubernetes Events. Before a [Poster] posts an Event, it asks a [Limiter] and shortens the
// texts with [NoteWithDropped] and [TruncateReason]. It then passes the Event to a recorder: the recorder of the manager, or [CoreV1Recorder], which posts
// Events as kopf does.
//
// By default, a poster posts at most 32 Events about an object in any hour. Events that the recorder only counts are not included. Each [Priority] has a
// reserve, so that details cannot displace problems. The poster logs the first dropped Event of an object, and the note of the next new Event contains the
// number of dropped Events.
//
// The recorder of the manager merges Events that differ only in their notes. The poster keeps them apart: it adds a number to the action.
//
// Events are best effort. An Event is lost if the API server rejects it or the process ends. The recorders log
// failures.
package eventrecorder
