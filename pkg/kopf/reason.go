package kopf

import (
	"slices"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

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

func (r Reason) handled() bool { return slices.Contains(handled, r) }

// An EventType is how a state of an object has come. kopf: type.
type EventType string

// The types of events; a state that was listed has none.
const (
	EventAdded    EventType = objectstate.EventAdded
	EventModified EventType = objectstate.EventModified
	EventDeleted  EventType = objectstate.EventDeleted
)

// An Attempt tells a handler which of its attempts is being made. For handlers with progress, those for what has happened, it
// survives restarts. Its Last text is cut at 1024 bytes.
type Attempt = progress.Attempt
