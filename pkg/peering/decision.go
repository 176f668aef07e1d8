package peering

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
)

// Tie says what operators with equal priorities do.
type Tie int

const (
	// PauseAll pauses all operators with the same priority until only one is left. This is kopf's rule and the default.
	PauseAll Tie = iota
	// Elect lets one of the operators with the same priority work: the one that has been a candidate for the longest time. The others
	// pause. All operators with this priority must use Elect; if one doesn't, all pause. Operators in Python don't support it.
	Elect
	// Share lets the operator work even if others have the same priority, because each handles different objects: with sharding, or with
	// selectors that are mutually exclusive. It still pauses for higher priorities. Others with the same priority pause unless they use Share,
	// too.
	//
	// Equivalent in kopf: its rule since 1.45 for operators with settings.watching.shard_selectors.
	Share
)

// Self describes the operator that makes the decision.
type Self struct {
	Identity string
	Priority int
	// Candidate is when an operator with [Elect] started to take part in peering. Zero means [PauseAll].
	Candidate time.Time
	// Shares is true for an operator with [Share].
	Shares bool
}

// Decision is the result of comparing an operator with its peers.
type Decision struct {
	// Paused means that the operator must pause because of its peers.
	Paused bool
	// Higher, Same and Lower are the peers that are alive, by priority.
	Higher, Same, Lower []Peer
	// Dead contains the dead peers, whose records can be removed.
	Dead []Peer
	// Recheck is the earliest time at which a blocking peer will be dead, unless it renews its record. It is zero if the operator isn't
	// paused.
	Recheck time.Time
}

// Decide compares the operator with its peers. It ignores the record with the operator's own identity. The peers must have been observed at
// the time now.
func (s Self) Decide(peers []Peer, now time.Time) (v Decision) {
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
	v.Paused = len(v.Higher) > 0 || len(v.Same) > 0 && !s.Shares && !s.isElected(v.Same)
	for _, p := range v.blockingPeers(s) {
		if deadline := p.Deadline(); v.Recheck.IsZero() || deadline.Before(v.Recheck) {
			v.Recheck = deadline
		}
	}
	return v
}

// isElected reports whether the operator is elected among the operators with its priority.
func (s Self) isElected(same []Peer) bool {
	if s.Candidate.IsZero() {
		return false
	}
	for _, p := range same {
		if p.Candidate.IsZero() {
			return false // the peer doesn't use Elect, so PauseAll applies
		}
		own := s.Candidate.Truncate(time.Microsecond) // records have this precision
		if cmp.Or(p.Candidate.Compare(own), strings.Compare(p.Identity, s.Identity)) < 0 {
			return false
		}
	}
	return true
}

// AliveCount returns the number of peers that are alive.
func (v Decision) AliveCount() int { return len(v.Higher) + len(v.Same) + len(v.Lower) }

func (v Decision) blockingPeers(self Self) []Peer {
	switch {
	case !v.Paused:
		return nil
	case self.Shares:
		return v.Higher
	case len(v.Higher) > 0:
		return append(slices.Clip(v.Higher), v.Same...)
	default:
		return v.Same
	}
}

// message explains a pause to users.
func (v Decision) message(self Self) string {
	switch {
	case len(v.Higher) > 0:
		return fmt.Sprintf("%s %s precedence over this operator's priority %d", formatPeers(v.Higher), hasOrHave(v.Higher), self.Priority)
	case v.Paused && self.Candidate.IsZero():
		return fmt.Sprintf("%s %s the same priority as this operator, so all of them pause: change the priority of one",
			formatPeers(v.Same), hasOrHave(v.Same))
	case v.Paused:
		return fmt.Sprintf("%s %s the same priority as this operator and won the election", formatPeers(v.Same), hasOrHave(v.Same))
	}
	return ""
}

func hasOrHave(peers []Peer) string {
	if len(peers) == 1 {
		return "has"
	}
	return "have"
}

// formatPeers lists up to five peers.
func formatPeers(peers []Peer) string {
	const most = 5
	var names []string
	for i, p := range peers {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(peers)-most))
			break
		}
		const most = 200 // bytes, since users choose the texts
		name := fmt.Sprintf("%q (priority %d)", guard.ShortenText(p.Identity, most), p.Priority)
		if p.Message != "" {
			name = fmt.Sprintf("%q (priority %d: %s)", guard.ShortenText(p.Identity, most), p.Priority, guard.ShortenText(p.Message, most))
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}
