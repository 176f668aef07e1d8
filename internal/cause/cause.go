package cause

// Reason is the kind of a cause: what has happened to an object.
type Reason string

// The reasons. The first four have handlers.
const (
	Create Reason = "create"
	Update Reason = "update"
	Delete Reason = "delete"
	Resume Reason = "resume"

	Noop Reason = "noop" // the essence has not changed
	Free Reason = "free" // the object is being deleted and does not have our finalizer
	Gone Reason = "gone" // the object does not exist
)

// HasHandlers reports whether handlers can be registered for the reason.
func (r Reason) HasHandlers() bool {
	return r == Create || r == Update || r == Delete || r == Resume
}

// Facts determine the reason. They do not depend on watch events.
type Facts struct {
	Gone         bool // the object does not exist
	Deleting     bool // the object has a deletion timestamp
	HasFinalizer bool // the object has our finalizer
	HasBaseline  bool // the object has a last-handled configuration
	Changed      bool // the essence differs from the last-handled configuration
	Initial      bool // the object was in the first listing, and this process has not handled it yet
}

// DetectReason returns the reason for these facts.
func (f Facts) DetectReason() Reason {
	switch {
	case f.Gone:
		return Gone
	case f.Deleting && !f.HasFinalizer:
		return Free
	case f.Deleting:
		return Delete
	case !f.HasBaseline:
		return Create
	case f.Changed:
		return Update
	case f.Initial:
		return Resume
	default:
		return Noop
	}
}

// RunsResumeHandlers reports whether a cause also selects resume handlers. This applies to an object of the first listing until this process has handled
// the object, unless the cause is a creation.
func RunsResumeHandlers(r Reason, f Facts) bool { return f.Initial && r != Create }

// FinalizerAction is a change of the finalizer of an object.
type FinalizerAction string

// The changes of the finalizer.
const (
	KeepFinalizer   FinalizerAction = "keep"
	AddFinalizer    FinalizerAction = "add"
	RemoveFinalizer FinalizerAction = "release"
)

// DecideFinalizer decides whether to add or to remove the finalizer before handlers are called. The finalizer is needed if the object has daemons, timers,
// or delete handlers that are not optional.
func DecideFinalizer(f Facts, needed bool) FinalizerAction {
	switch {
	case f.Gone:
		return KeepFinalizer
	case needed && !f.HasFinalizer && !f.Deleting:
		return AddFinalizer
	case !needed && f.HasFinalizer:
		return RemoveFinalizer
	default:
		return KeepFinalizer
	}
}
