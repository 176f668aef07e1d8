package peering

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Peer is an operator with a record in the peering object.
type Peer struct {
	Identity string
	Record
	// Since is when the record was first observed with its current content, by the local clock. In results of a [Client], it is the time of
	// the request.
	Since time.Time
}

// Deadline returns the time at which the peer is dead if its record doesn't change. This is one lifetime after Since, but at most one
// lifetime plus [MaxSkew] after LastSeen, so that old records of killed processes don't pause new operators. A longer lifetime counts as
// [MaxLifetime].
func (p Peer) Deadline() time.Time {
	lifetime := min(p.Lifetime, MaxLifetime)
	unchanged := p.Since.Add(lifetime)
	if p.LastSeen.IsZero() {
		return unchanged
	}
	if old := p.LastSeen.Add(lifetime).Add(MaxSkew); old.Before(unchanged) {
		return old
	}
	return unchanged
}

// Dead reports whether the deadline has passed at the time now. Observe the object at this time, because otherwise the peer may have
// renewed its record in the meantime. For peers from a [Client], Dead returns true at the time of the request only if the record expired at
// least [MaxSkew] ago. If clocks are synchronized, use [Record.Expired] for them.
func (p Peer) Dead(now time.Time) bool { return !now.Before(p.Deadline()) }

// Unreadable is a record that can't be decoded. Operators don't remove it.
type Unreadable struct {
	Identity string
	Err      error
}

// Observations stores when the records of a peering object last changed. The zero value is ready to use. It is not safe for concurrent use.
type Observations struct {
	previous map[string]observation
}

type observation struct {
	raw    string
	since  time.Time
	record Record
	err    error
}

// Observe processes the current status of the peering object. It returns all peers sorted by identity, including dead ones, and the records
// that can't be decoded.
func (s *Observations) Observe(status any, now time.Time) (peers []Peer, unreadable []Unreadable) {
	records, isMap := status.(map[string]any)
	if !isMap && status != nil {
		unreadable = append(unreadable, Unreadable{Err: fmt.Errorf("the status must be an object with records, got %.40v", status)})
	}
	seen := make(map[string]observation, len(records))
	for _, identity := range slices.Sorted(maps.Keys(records)) {
		one := s.observeRecord(identity, records[identity], now)
		seen[identity] = one
		if one.err != nil {
			unreadable = append(unreadable, Unreadable{Identity: identity, Err: one.err})
			continue
		}
		peers = append(peers, Peer{Identity: identity, Record: one.record, Since: one.since})
	}
	s.previous = seen
	return peers, unreadable
}

func (s *Observations) observeRecord(identity string, value any, now time.Time) observation {
	raw, err := json.Marshal(value) // JSON has sorted keys, so equal records have equal text
	if err != nil {
		return observation{since: now, err: err}
	}
	if previous, known := s.previous[identity]; known && previous.raw == string(raw) {
		return previous
	}
	one := observation{raw: string(raw), since: now}
	one.err = json.Unmarshal(raw, &one.record)
	return one
}
