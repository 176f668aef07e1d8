package peering

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A Peer is an operator that has a record in the peering object.
type Peer struct {
	Identity string
	Record
	// Since is when we have seen the record first as it is now: by our clock, which no other clock has to agree with. A
	// [Client] looks once, so from it this is the moment of that look.
	Since time.Time
}

// Deadline is when the peer will be dead if its record stays as it is: when we have seen it unchanged for its
// lifetime. A record that is older than any difference of clocks explains is dead from the beginning: we need not wait
// for what somebody has left behind yesterday.
func (p Peer) Deadline() time.Time {
	unchanged := p.Since.Add(p.Lifetime)
	if p.LastSeen.IsZero() {
		return unchanged
	}
	// Two steps: a sum of durations could overflow.
	if old := p.Expires().Add(MaxSkew); old.Before(unchanged) {
		return old
	}
	return unchanged
}

// Dead reports whether the deadline has passed, or is now. "now" has to be a moment at which the record was looked at:
// not to have seen a change because one has not looked proves nothing. Of peers that a [Client] has listed, it tells only
// those that were dead long ago ([MaxSkew]); [Record.Expired] tells all of them, as far as clocks agree.
func (p Peer) Dead(now time.Time) bool { return !now.Before(p.Deadline()) }

// An Unreadable record is one that could not be understood, and is left as it is.
type Unreadable struct {
	Identity string
	Err      error
}

// Sightings remember since when the records of a peering object have been as they are. The zero value has seen
// nothing. They are for one goroutine.
type Sightings struct {
	seen map[string]sighting
}

type sighting struct {
	raw    string
	since  time.Time
	record Record
	err    error
}

// See takes the status of the peering object as it is now, and returns all operators in it, in the order of their
// identities, dead ones included. What cannot be understood is told apart.
func (s *Sightings) See(status any, now time.Time) (peers []Peer, unreadable []Unreadable) {
	records, isMap := status.(map[string]any)
	if !isMap && status != nil {
		unreadable = append(unreadable, Unreadable{Err: fmt.Errorf("the status is no object with records, but %.40v", status)})
	}
	seen := make(map[string]sighting, len(records))
	for _, identity := range slices.Sorted(maps.Keys(records)) {
		one := s.look(identity, records[identity], now)
		seen[identity] = one
		if one.err != nil {
			unreadable = append(unreadable, Unreadable{Identity: identity, Err: one.err})
			continue
		}
		peers = append(peers, Peer{Identity: identity, Record: one.record, Since: one.since})
	}
	s.seen = seen
	return peers, unreadable
}

func (s *Sightings) look(identity string, value any, now time.Time) sighting {
	raw, err := json.Marshal(value) // with sorted keys: the same record is the same text
	if err != nil {
		return sighting{since: now, err: err}
	}
	if before, known := s.seen[identity]; known && before.raw == string(raw) {
		return before
	}
	one := sighting{raw: string(raw), since: now}
	one.err = json.Unmarshal(raw, &one.record)
	return one
}
