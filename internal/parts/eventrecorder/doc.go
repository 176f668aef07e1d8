// Package eventrecorder limits and posts Kubernetes Events. Before a [Poster] posts an Event, it asks a [Limiter] and shortens the texts
// with [NoteWithDropped] and [TruncateReason]. It then hands the Event to a recorder: the manager's, or [CoreV1Recorder], which posts
// Events as kopf does.
//
// By default, a poster posts at most 32 Events about an object per hour, not counting those that the recorder only adds to a series. Each
// [Priority] has a reserve, so that details can't displace problems. The poster logs the first Event about an object that it drops, and the
// next new Event's note says how many were dropped.
//
// The manager's recorder merges Events that differ only in their notes. To keep them apart, the poster adds a number to the action.
//
// Events are best effort: they are lost if the API server rejects them or the process exits. The recorders log failures.
package eventrecorder
