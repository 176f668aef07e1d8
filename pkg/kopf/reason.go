package kopf

import "slices"

// A Reason is the kind of cause or, without a cause, the kind of handler.
//
// Equivalent in kopf: reason.
type Reason string

const (
	// ReasonCreate means that the object has no last-handled configuration.
	ReasonCreate Reason = "create"
	// ReasonUpdate means that the essence differs from the last-handled configuration.
	ReasonUpdate Reason = "update"
	// ReasonDelete means that the object is being deleted.
	ReasonDelete Reason = "delete"
	// ReasonResume means that the object existed when the operator started, and that its essence hasn't changed since it was last handled.
	ReasonResume Reason = "resume"
	// ReasonRevision means that nothing has changed, and that the handler has a newer revision than the object was handled with: see
	// [Revision].
	ReasonRevision Reason = "revision"

	// ReasonEvent is the reason of [Resource.OnEvent] handlers.
	ReasonEvent Reason = "event"
	// ReasonEventAbout is the reason of [Resource.OnEventAbout] handlers.
	ReasonEventAbout Reason = "event-about"
	// ReasonReconcile is the reason of [Resource.OnReconcile] handlers.
	ReasonReconcile Reason = "reconcile"
	// ReasonDaemon is the reason of a [Resource.Daemon].
	ReasonDaemon Reason = "daemon"
	// ReasonTimer is the reason of a [Resource.Timer].
	ReasonTimer Reason = "timer"
	// ReasonIndex is the reason of functions of [IndexBy].
	ReasonIndex Reason = "index"
)

// isCause reports whether r is the reason of a cause.
func (r Reason) isCause() bool { return slices.Contains(causeReasons, r) }

// causeReasons are the reasons of causes.
var causeReasons = []Reason{ReasonCreate, ReasonUpdate, ReasonDelete, ReasonResume}
