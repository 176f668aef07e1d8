package match

import "slices"

// Criteria are what a handler wants to be called for.
type Criteria struct {
	// Reasons for which it is called.
	Reasons []string
	// EvenIfDeleted lets a resume handler join in while the object is being deleted.
	EvenIfDeleted bool
	// Optional: it does not keep the object from being deleted (deletions only).
	Optional bool
}

// A Situation is what is known of an object when handlers are selected.
type Situation struct {
	Reason   string
	Initial  bool // first cause of the object in this process
	Deleting bool
}

const (
	reasonResume = "resume"
	reasonDelete = "delete"
)

// Match reports whether a handler is to be called in the situation, and why not if it is not.
func (c Criteria) Match(s Situation) (ok bool, why string) {
	if c.Wants(s.Reason) && s.Reason != reasonResume {
		return true, ""
	}
	if !slices.Contains(c.Reasons, reasonResume) {
		return false, "it is for other reasons"
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

// Wants reports whether a reason is among the handler's own; resume handlers join others, too.
func (c Criteria) Wants(reason string) bool { return slices.Contains(c.Reasons, reason) }

// Holds reports whether a handler needs the object to stay until it was called for the deletion.
func (c Criteria) Holds() bool {
	return slices.Contains(c.Reasons, reasonDelete) && !c.Optional
}

// Farewell reports whether a handler is called when a deletion is seen that it could not hold up.
func (c Criteria) Farewell() bool {
	return slices.Contains(c.Reasons, reasonDelete) && c.Optional
}
