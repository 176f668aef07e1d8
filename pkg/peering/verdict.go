package peering

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Tie says what equal priorities mean.
type Tie int

const (
	// PauseAll has all operators of one priority pause until all but one have gone: kopf's rule, and the default.
	PauseAll Tie = iota
	// Elect has operators of one priority agree on one of them, the one that has been there longest, provided that
	// all of them are set to do so. Operators in Python cannot: with one of them, all pause.
	Elect
)

// A Self is the operator that judges: the one that asks whether it may work.
type Self struct {
	Identity string
	Priority int
	// Candidate is since when it has been ready to be elected; zero: [PauseAll].
	Candidate time.Time
}

// A Verdict is what the peers mean for an operator.
type Verdict struct {
	// Paused: others have precedence.
	Paused bool
	// The peers that are alive, by their priorities.
	Higher, Same, Lower []Peer
	// Dead peers, whose records can be removed.
	Dead []Peer
	// Next is when to look again, because the first of those that have precedence may be dead by then. Zero if
	// not paused.
	Next time.Time
}

// Judge tells what the peers, as seen at this moment, mean for the operator. An equal identity is the operator itself.
func (s Self) Judge(peers []Peer, now time.Time) (v Verdict) {
	for _, p := range peers {
		switch {
		case p.Identity == s.Identity:
		case p.Dead(now):
			v.Dead = append(v.Dead, p)
		case p.Priority > s.Priority:
			v.Higher = append(v.Higher, p)
		case p.Priority == s.Priority:
			v.Same = append(v.Same, p)
		default:
			v.Lower = append(v.Lower, p)
		}
	}
	v.Paused = len(v.Higher) > 0 || len(v.Same) > 0 && !s.elected(v.Same)
	for _, p := range v.blockers() {
		if deadline := p.Deadline(); v.Next.IsZero() || deadline.Before(v.Next) {
			v.Next = deadline
		}
	}
	return v
}

// elected reports whether the operator is the one among its equals.
func (s Self) elected(same []Peer) bool {
	if s.Candidate.IsZero() {
		return false
	}
	for _, p := range same {
		if p.Candidate.IsZero() {
			return false // does not take part: then nobody knows better than the common rule
		}
		mine := s.Candidate.Truncate(time.Microsecond) // as the others see it
		if cmp.Or(p.Candidate.Compare(mine), strings.Compare(p.Identity, s.Identity)) < 0 {
			return false
		}
	}
	return true
}

// Live is how many others are alive.
func (v Verdict) Live() int { return len(v.Higher) + len(v.Same) + len(v.Lower) }

func (v Verdict) blockers() []Peer {
	switch {
	case !v.Paused:
		return nil
	case len(v.Higher) > 0:
		return append(slices.Clip(v.Higher), v.Same...)
	default:
		return v.Same
	}
}

// why is the reason of a pause, for people.
func (v Verdict) why(self Self) string {
	switch {
	case len(v.Higher) > 0:
		return fmt.Sprintf("%s %s precedence over our priority %d", list(v.Higher), has(v.Higher), self.Priority)
	case v.Paused && self.Candidate.IsZero():
		return fmt.Sprintf("%s %s the same priority as we have, so all of us pause: give one of us another priority",
			list(v.Same), has(v.Same))
	case v.Paused:
		return fmt.Sprintf("%s %s the same priority as we have, and we are not the one to work", list(v.Same), has(v.Same))
	}
	return ""
}

func has(peers []Peer) string {
	if len(peers) == 1 {
		return "has"
	}
	return "have"
}

// list names peers, though not hundreds of them.
func list(peers []Peer) string {
	const most = 5
	var names []string
	for i, p := range peers {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(peers)-most))
			break
		}
		name := fmt.Sprintf("%q (priority %d)", p.Identity, p.Priority)
		if p.Message != "" {
			name = fmt.Sprintf("%q (priority %d: %s)", p.Identity, p.Priority, p.Message)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}
