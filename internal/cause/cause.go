package cause

// A Reason says what has happened to an object, concluded from its state.
type Reason string

// The first four have handlers; the others are for information.
const (
	Create Reason = "create"
	Update Reason = "update"
	Delete Reason = "delete"
	Resume Reason = "resume"

	Noop Reason = "noop" // nothing that counts
	Free Reason = "free" // being deleted, and not held by us
	Gone Reason = "gone" // deleted
)

// Handled reports whether handlers can be called for the reason.
func (r Reason) HasHandlers() bool {
	return r == Create || r == Update || r == Delete || r == Resume
}

// Facts are all that a cause is concluded from. No watch event is among them.
type Facts struct {
	Gone         bool // the object does not exist any more
	Deleting     bool // it has a deletion timestamp
	HasFinalizer bool // it has our finalizer
	HasBaseline  bool // it has a last handled essence
	Changed      bool // that essence differs from the present one
	Initial      bool // listed when the operator started, and not handled since
}

// Detect concludes the cause: the rows CAUSE-01 to CAUSE-07, from the top.
func Detect(f Facts) Reason {
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

// Initial reports whether a cause counts as the object's first in this process: never-handled
// objects do not resume, they are created (CAUSE-04, CAUSE-23).
func IsInitial(r Reason, f Facts) bool { return f.Initial && r != Create }

// Hold is what is to be done about our finalizer.
type FinalizerAction string

// What to do about the finalizer.
const (
	KeepFinalizer   FinalizerAction = "keep"
	AddFinalizer    FinalizerAction = "add"
	RemoveFinalizer FinalizerAction = "release"
)

// Holding decides about the finalizer before any handler is called (FIN-03 to FIN-06). Adding and
// releasing take a pass of their own.
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
