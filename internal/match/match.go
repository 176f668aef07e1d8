package match

import "slices"

// Criteria are what a handler wants to be called for.
type Criteria struct {
	// Reasons for which it is called.
	Reasons []string
	// AnyReason: it is called for whatever has happened, provided that its field has changed. Such a
	// handler holds no object up.
	AnyReason bool
	// EvenIfDeleted lets a resume handler join in while the object is being deleted.
	EvenIfDeleted bool
	// Optional: it does not keep the object from being deleted (deletions only).
	Optional bool
	Filters
}

// A Situation is what is known of an object when handlers are selected.
type Cause struct {
	Reason   string
	Initial  bool // first cause of the object in this process
	Deleting bool
}

const (
	reasonResume = "resume"
	reasonDelete = "delete"
	reasonUpdate = "update"
)

// Match reports whether a handler is to be called in the situation, and why not if it is not. The
// filters that look at the object alone are not asked: see [Filters.Prematch].
func (c Criteria) Match(s Cause, o Input) (ok bool, why string) {
	ok, why = c.matchOwnReasons(s, o)
	if ok || c.AnyReason || !slices.Contains(c.Reasons, reasonResume) {
		return ok, why
	}
	switch {
	case !s.Initial:
		return false, "the object was handled already in this process"
	case s.Deleting && !c.EvenIfDeleted:
		return false, "the object is being deleted"
	default:
		return true, ""
	}
}

// Joins reports whether a handler that matches is called because it resumes, while the cause is another.
func (c Criteria) MatchesOnlyAsResume(s Cause, o Input) bool {
	ok, _ := c.matchOwnReasons(s, o)
	return !ok && s.Reason != reasonResume
}

// calls tells whether what has happened is a reason of the handler's own.
func (c Criteria) matchOwnReasons(s Cause, o Input) (ok bool, why string) {
	switch {
	case c.AnyReason:
		return c.matchChange(o)
	case s.Reason == reasonResume || !slices.Contains(c.Reasons, s.Reason):
		return false, "it is for other reasons"
	case s.Reason == reasonUpdate:
		return c.matchChange(o)
	default:
		return true, ""
	}
}

// TellsChanges reports whether a handler is told what has changed when it is called for a reason.
func (c Criteria) ReceivesDiff(reason string) bool {
	return c.AnyReason || reason == reasonUpdate && slices.Contains(c.Reasons, reasonUpdate)
}

// Holds reports whether a handler needs the object to stay until it was called for the deletion.
func (c Criteria) NeedsFinalizer() bool {
	return slices.Contains(c.Reasons, reasonDelete) && !c.Optional
}

// Farewell reports whether a handler is called when a deletion is seen that it could not hold up.
func (c Criteria) IsOptionalDelete() bool {
	return slices.Contains(c.Reasons, reasonDelete) && c.Optional
}
