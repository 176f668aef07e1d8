package peering_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

func record(priority int, lifetime time.Duration, seen time.Time) map[string]any {
	return map[string]any{
		"priority": int64(priority), "lifetime": int64(lifetime / time.Second),
		"lastseen": seen.UTC().Format("2006-01-02T15:04:05.000000+00:00"),
	}
}

func names(peers []peering.Peer) string {
	var all []string
	for _, p := range peers {
		all = append(all, p.Identity)
	}
	return fmt.Sprint(all)
}

// PEER-14, PEER-30, PEER-32: Decide determines the peers with precedence.
func TestDecide(t *testing.T) {
	now := time.Now()
	live := func(priority int) map[string]any { return record(priority, time.Minute, now) }
	dead := func(priority int) map[string]any { return record(priority, time.Minute, now.Add(-time.Hour)) }
	for _, test := range []struct {
		name                      string
		priority                  int
		status                    map[string]any
		paused                    bool
		higher, same, lower, dead string
	}{
		{name: "alone", status: nil},
		{name: "PEER-14: only itself, with any priority", status: map[string]any{"self": live(1000)}},
		{name: "PEER-30, PEER-32: a higher peer", status: map[string]any{"a": live(1)}, paused: true, higher: "a"},
		{name: "PEER-32: an equal peer", status: map[string]any{"a": live(0)}, paused: true, same: "a"},
		{name: "PEER-32: a lower peer", status: map[string]any{"a": live(-1)}, lower: "a"},
		{name: "PEER-30: dead peers are ignored", status: map[string]any{"a": dead(1), "b": dead(0), "c": dead(-1)}, dead: "a b c"},
		{name: "no lifetime", status: map[string]any{"a": record(1, 0, now), "b": record(1, -time.Hour, now)}, dead: "a b"},
		{
			name: "PEER-30: higher, equal, lower and dead peers", priority: 5, paused: true, higher: "b", same: "c", lower: "a", dead: "d",
			status: map[string]any{"a": live(4), "b": live(6), "c": live(5), "d": dead(7), "self": live(5)},
		},
		{name: "the maximum priority", priority: math.MaxInt, status: map[string]any{"a": live(math.MaxInt - 1)}, lower: "a"},
		{name: "the minimum priority", priority: math.MinInt, status: map[string]any{"a": live(math.MinInt + 1)}, paused: true, higher: "a"},
		{
			name:   "unreadable records next to a valid record",
			status: map[string]any{"a": "text", "b": nil, "c": []any{}, "d": live(1), "e": dead(3)}, paused: true, higher: "d", dead: "e",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var observations peering.Observations
			peers, _ := observations.Observe(test.status, now)
			got := peering.Self{Identity: "self", Priority: test.priority}.Decide(peers, now)
			want := []string{"[" + test.higher + "]", "[" + test.same + "]", "[" + test.lower + "]", "[" + test.dead + "]"}
			if diff := cmp.Diff(want, []string{names(got.Higher), names(got.Same), names(got.Lower), names(got.Dead)}); diff != "" {
				t.Error(diff)
			}
			if got.Paused != test.paused || got.Recheck.IsZero() == test.paused {
				t.Errorf("got paused = %t, recheck at %s, want paused = %t", got.Paused, got.Recheck, test.paused)
			}
		})
	}
}

// PEER-34: Recheck is the deadline of the first blocking peer.
func TestDecide_Recheck(t *testing.T) {
	now := time.Now()
	var observations peering.Observations
	peers, _ := observations.Observe(map[string]any{
		"low": record(-1, time.Second, now), "late": record(2, time.Hour, now),
		"first": record(1, 20*time.Second, now), "equal": record(0, 30*time.Second, now),
	}, now)
	if got := (peering.Self{}).Decide(peers, now).Recheck.Sub(now); got != 20*time.Second {
		t.Errorf("got a recheck in %s, want 20s", got)
	}
}

// B-51, PEER-07: a peer is alive while its record changes, even if its clock is wrong by up to ten minutes.
func TestPeer_AliveWithSkewedClock(t *testing.T) {
	for _, skew := range []time.Duration{-10 * time.Minute, -5 * time.Minute, -61 * time.Second, 0, time.Minute, 10 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			began := time.Now()
			var observations peering.Observations
			at := func(now time.Duration, seen time.Duration) peering.Decision {
				status := map[string]any{"a": record(1, time.Minute, began.Add(seen+skew))}
				peers, _ := observations.Observe(status, began.Add(now))
				return peering.Self{Identity: "self"}.Decide(peers, began.Add(now))
			}
			step := 50 * time.Second
			for i := range 5 {
				if v := at(time.Duration(i)*step+time.Millisecond, time.Duration(i)*step+time.Millisecond); !v.Paused {
					t.Fatalf("the peer counts as dead at write %d, want alive", i)
				}
				if v := at(time.Duration(i)*step+49*time.Second, time.Duration(i)*step+time.Millisecond); !v.Paused {
					t.Fatalf("the peer counts as dead after write %d, want alive", i)
				}
			}
			last := 4*step + time.Millisecond
			if v := at(last+time.Minute-time.Millisecond, last); !v.Paused {
				t.Error("the peer was considered dead before the end of its lifetime")
			}
			if v := at(last+time.Minute, last); v.Paused || len(v.Dead) != 1 {
				t.Errorf("the peer must be dead one lifetime after its last write, got %+v", v)
			}
		})
	}
}

// B-51: a record that is older than MaxSkew is dead immediately. Other records are dead after their lifetime.
func TestPeer_OldRecordIsDead(t *testing.T) {
	now := time.Now()
	for age, dead := range map[time.Duration]bool{
		time.Minute: false, 10 * time.Minute: false, 11*time.Minute - time.Second: false, 11 * time.Minute: true, 24 * time.Hour: true,
	} {
		var observations peering.Observations
		peers, _ := observations.Observe(map[string]any{"a": record(1, time.Minute, now.Add(-age))}, now)
		if got := peers[0].Dead(now); got != dead {
			t.Errorf("record first observed %s after its write: dead = %t, want %t", age, got, dead)
		}
	}
}

// A record with a lifetime of centuries does not pause other operators forever.
func TestPeer_LongLifetimesAreLimited(t *testing.T) {
	now := time.Now()
	for name, written := range map[string]map[string]any{
		"with lastseen":      record(1, 0, now),
		"lastseen is ahead":  record(1, 0, now.AddDate(293, 0, 0)),
		"without lastseen":   {"priority": int64(1)},
		"a maximal lifetime": {"priority": int64(1), "lifetime": int64(math.MaxInt64)},
	} {
		if written["lifetime"] == nil || written["lifetime"] == int64(0) {
			written["lifetime"] = int64(293 * 365 * 24 * 60 * 60)
		}
		var observations peering.Observations
		peers, _ := observations.Observe(map[string]any{"a": written}, now)
		if peers[0].Dead(now.Add(peering.MaxLifetime-1)) || !peers[0].Dead(now.Add(peering.MaxLifetime)) {
			t.Errorf("%s: the peer is dead after %s, want %s", name, peers[0].Deadline().Sub(now), peering.MaxLifetime)
		}
	}
}

// A record without lastseen expires one lifetime after its first observation.
func TestPeer_RecordWithoutLastSeen(t *testing.T) {
	now := time.Now()
	var observations peering.Observations
	status := map[string]any{"a": map[string]any{"priority": int64(1)}}
	observations.Observe(status, now)
	peers, _ := observations.Observe(status, now.Add(time.Minute))
	if !peers[0].Dead(now.Add(time.Minute)) || peers[0].Dead(now.Add(time.Minute-1)) {
		t.Error("the peer must be dead after one minute")
	}
}

// A change of a record keeps its peer alive. Changes of other records do not.
func TestObservations_ChangeKeepsPeerAlive(t *testing.T) {
	now := time.Now()
	var observations peering.Observations
	observations.Observe(map[string]any{"a": map[string]any{"x": int64(1)}, "b": map[string]any{"x": int64(1)}}, now)
	peers, _ := observations.Observe(map[string]any{"a": map[string]any{"x": int64(2)}, "b": map[string]any{"x": int64(1)}}, now.Add(time.Second))
	if got := []time.Duration{peers[0].Since.Sub(now), peers[1].Since.Sub(now)}; !slices.Equal(got, []time.Duration{time.Second, 0}) {
		t.Errorf("times of the last changes = %v, want 1s and 0s", got)
	}
	// A record that is created again counts as new.
	observations.Observe(map[string]any{}, now.Add(2*time.Second))
	peers, _ = observations.Observe(map[string]any{"b": map[string]any{"x": int64(1)}}, now.Add(3*time.Second))
	if got := peers[0].Since.Sub(now); got != 3*time.Second {
		t.Errorf("the recreated record was observed after %s, want 3s", got)
	}
}

// B-53: if all peers of equal priority are candidates, they elect the candidate that started first.
func TestDecide_Election(t *testing.T) {
	now := time.Now()
	candidate := func(since time.Duration) map[string]any {
		r := record(0, time.Minute, now)
		r["candidate"] = now.Add(since).UTC().Format("2006-01-02T15:04:05.000000+00:00")
		return r
	}
	outcome := func(status map[string]any) (working []string) {
		for identity := range status {
			var observations peering.Observations
			peers, _ := observations.Observe(status, now)
			self := peering.Self{Identity: identity}
			for _, p := range peers {
				if p.Identity == identity {
					self.Priority, self.Candidate = p.Priority, p.Candidate
				}
			}
			if !self.Decide(peers, now).Paused {
				working = append(working, identity)
			}
		}
		return working
	}
	for name, test := range map[string]struct {
		status map[string]any
		want   []string
	}{
		"the first":                             {map[string]any{"a": candidate(2), "b": candidate(-time.Hour), "c": candidate(0)}, []string{"b"}},
		"equal start times, elected by name":    {map[string]any{"c": candidate(0), "b": candidate(0)}, []string{"b"}},
		"an equal peer that is not a candidate": {map[string]any{"a": candidate(0), "b": candidate(-time.Hour), "kopf": record(0, time.Minute, now)}, nil},
		"a lower peer that is not a candidate":  {map[string]any{"a": candidate(0), "b": candidate(-time.Hour), "kopf": record(-1, time.Minute, now)}, []string{"b"}},
		"a higher peer that is not a candidate": {map[string]any{"a": candidate(0), "b": candidate(-time.Hour), "kopf": record(1, time.Minute, now)}, []string{"kopf"}},
		"PEER-32, PEER-35: kopf's rule":         {map[string]any{"a": record(0, time.Minute, now), "b": record(0, time.Minute, now)}, nil},
		"dead candidates are not elected":       {map[string]any{"a": candidate(0), "b": record(0, time.Minute, now.Add(-time.Hour))}, []string{"a"}},
	} {
		if got := outcome(test.status); !slices.Equal(got, test.want) {
			t.Errorf("%s: active operators = %v, want %v", name, got, test.want)
		}
	}
}
