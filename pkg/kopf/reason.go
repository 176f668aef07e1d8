package kopf

import "slices"

// A Reason is what has happened to an object, concluded from its state: the last handled essence
// against the present one. kopf: reason.
type Reason string

const (
	// ReasonCreate says that the object was never handled.
	ReasonCreate Reason = "create"
	// ReasonUpdate says that its essence differs from the last handled one.
	ReasonUpdate Reason = "update"
	// ReasonDelete says that it is being deleted.
	ReasonDelete Reason = "delete"
	// ReasonResume says that it was handled before, and the operator has started anew.
	ReasonResume Reason = "resume"

	// ReasonEvent is that of [Resource.OnEvent] handlers.
	ReasonEvent Reason = "event"
	// ReasonReconcile is that of [Resource.OnReconcile] handlers.
	ReasonReconcile Reason = "reconcile"
	// ReasonDaemon is that of a [Resource.Daemon].
	ReasonDaemon Reason = "daemon"
	// ReasonTimer is that of a [Resource.Timer].
	ReasonTimer Reason = "timer"
	// ReasonIndex is that of functions of [IndexBy].
	ReasonIndex Reason = "index"
)

func (r Reason) isCause() bool { return slices.Contains(causeReasons, r) }
