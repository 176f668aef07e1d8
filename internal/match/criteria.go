package match

import "slices"

// Criteria decide for which causes and objects a handler is selected.
type Criteria struct {
	// Reasons are the ones the handler is registered for.
	Reasons []string
	// AnyReason selects the handler for every reason if its field has changed. Such a handler doesn't block deletions.
	AnyReason bool
	// EvenIfDeleted selects a resume handler even if the object is being deleted.
	EvenIfDeleted bool
	// Optional marks a delete handler that needs no finalizer.
	Optional bool
	Filters
}

// Cause is what handlers are selected for.
type Cause struct {
	Reason   string // a value of cause.Reason
	Initial  bool   // the object was in the first listing, and this process hasn't handled it yet
	Deleting bool
}

const (
	reasonCreate = "create"
	reasonResume = "resume"
	reasonDelete = "delete"
	reasonUpdate = "update"
)

// MatchCause checks whether a handler is selected for a cause. It doesn't apply the filters, which [Filters.MatchObject] does.
func (c Criteria) MatchCause(s Cause, o Input) Refusal {
	refusal := c.matchOwnReasons(s, o)
	if refusal.Accepts() || c.AnyReason || !slices.Contains(c.Reasons, reasonResume) {
		return refusal
	}
	switch {
	case s.Reason == reasonCreate:
		return refusal
	case !s.Initial:
		return Refusal{Rule: AlreadyHandled}
	case s.Deleting && !c.EvenIfDeleted:
		return Refusal{Rule: Deleting}
	default:
		return Refusal{}
	}
}

// SelectedOnlyByResume reports whether a matching handler is selected merely because it is a resume handler, although the cause has a
// different reason.
func (c Criteria) SelectedOnlyByResume(s Cause, o Input) bool {
	return !c.matchOwnReasons(s, o).Accepts() && s.Reason != reasonResume
}

// matchOwnReasons is like MatchCause, but never selects a handler for being a resume handler.
func (c Criteria) matchOwnReasons(s Cause, o Input) Refusal {
	switch {
	case c.AnyReason:
		return c.matchChange(o)
	case s.Reason == reasonResume || !slices.Contains(c.Reasons, s.Reason):
		return Refusal{Rule: OtherReason}
	case s.Reason == reasonUpdate:
		return c.matchChange(o)
	default:
		return Refusal{}
	}
}

// Resumes reports whether the handler is a resume handler.
func (c Criteria) Resumes() bool { return slices.Contains(c.Reasons, reasonResume) }

// Creates reports whether the handler is a create handler.
func (c Criteria) Creates() bool { return slices.Contains(c.Reasons, reasonCreate) }

// ComparesStates reports whether the handler needs the last-handled configuration, either to distinguish new objects from known ones or to
// detect changes.
func (c Criteria) ComparesStates() bool {
	return c.AnyReason || slices.ContainsFunc(c.Reasons, func(reason string) bool { return reason != reasonDelete })
}

// ReceivesDiff reports whether the handler receives the diff when it is called for the given reason.
func (c Criteria) ReceivesDiff(reason string) bool {
	return c.AnyReason || reason == reasonUpdate && slices.Contains(c.Reasons, reasonUpdate)
}

// IsMandatoryDelete reports whether the handler is a delete handler that is not optional. For such a handler, the object keeps a
// finalizer until the handler has finished.
func (c Criteria) IsMandatoryDelete() bool {
	return slices.Contains(c.Reasons, reasonDelete) && !c.Optional
}

// IsOptionalDelete reports whether the handler is an optional delete handler.
func (c Criteria) IsOptionalDelete() bool {
	return slices.Contains(c.Reasons, reasonDelete) && c.Optional
}
