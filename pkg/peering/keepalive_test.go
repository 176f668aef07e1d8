package peering

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// PEER-20, PEER-08, SET-08, SET-11: the operator writes its record at the start and five to ten seconds before the end
// of each lifetime.
func TestKeepalive(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		s.start(Options{Identity: "a", Priority: 3})
		s.wait(time.Hour)
		patches := s.takePatches()
		steps := map[time.Duration]bool{}
		for i, p := range patches {
			want := `{"status":{"a":{"priority":3,"lifetime":60,"lastseen":"` + formatTimestamp(p.at) + `"}}}`
			if p.body != want || p.code != 200 {
				s.Fatalf("status code %d, body %s, want %s", p.code, p.body, want)
			}
			if i > 0 {
				steps[p.at.Sub(patches[i-1].at)] = true
			}
		}
		for step := range steps {
			if step < 50*time.Second || step > 55*time.Second || step%time.Second != 0 {
				s.Errorf("got an interval of %s, want one lifetime less 5 to 10 seconds", step)
			}
		}
		if len(steps) < 4 {
			s.Errorf("got %d different intervals, want at least 4", len(steps))
		}
		if n := len(patches); n < 3600/55 || n > 3600/50+1 {
			s.Errorf("got %d writes per hour, want 65 to 73", n)
		}
	})
}

// PEER-20: a lifetime can be shorter than the margin.
func TestKeepalive_ShortLifetime(t *testing.T) {
	for lifetime, want := range map[int][2]int{1: {1, 1}, 5: {1, 1}, 8: {1, 3}, 15: {5, 10}, 3600: {3590, 3595}} {
		m := &member{Peering: &Peering{options: Options{Lifetime: time.Duration(lifetime) * time.Second}}}
		for range 100 {
			if got := m.keepaliveInterval(); got < time.Duration(want[0])*time.Second || got > time.Duration(want[1])*time.Second {
				t.Fatalf("lifetime of %d: got a write after %s, want %d to %d seconds", lifetime, got, want[0], want[1])
			}
		}
	}
}

// Events of peers cause no writes.
func TestKeepalive_EventsCauseNoWrites(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		s.takePatches()
		for i := range 1000 {
			s.putRecord(defaultKey, "low", kopfRecord(-1, time.Duration(i+60)*time.Second))
			s.wait(time.Millisecond)
		}
		for _, p := range s.takePatches() {
			if !strings.Contains(p.body, `"low"`) {
				s.Errorf("got the write %s, want none", p.body)
			}
		}
		s.expect(a, false, "none of 1 live peers")
	})
}

// PEER-21: at shutdown, the operator immediately removes only its own record.
func TestShutdown_RemovesRecord(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, map[string]any{"junk": "x"})
		a := s.start(Options{Identity: "a"})
		s.equal("records", s.identities(defaultKey), "[a junk]")
		s.takePatches()
		before := time.Now()
		a.stop()
		s.equal("time taken", time.Since(before), time.Duration(0))
		patches := s.takePatches()
		s.equal("requests", len(patches), 1)
		s.equal("body", patches[0].body, `{"status":{"a":null}}`)
		s.expect(a, true, "shutting down")
	})
}

// If the removal has no response, it delays the shutdown by at most two seconds.
func TestShutdown_ServerDoesNotRespond(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		s.stopResponding()
		before := time.Now()
		a.stop()
		s.equal("time taken", time.Since(before), 2*time.Second)
		s.equal("log lines", a.logged("Failed to remove the record"), 1)
	})
}

// PEER-22, PEER-41: without the object, writes fail. When the object is created, the operator writes its record
// immediately.
func TestObject_CreatedLater(t *testing.T) {
	simulate(t, func(s *simulation) {
		a := s.start(Options{Identity: "a"})
		s.expect(a, false, "the peering object does not exist")
		s.wait(10 * time.Minute)
		patches := s.takePatches()
		if n := len(patches); n < 11 || n > 13 {
			s.Errorf("got %d writes, want 11 to 13", n)
		}
		s.equal("log lines", a.logged("The peering object does not exist"), 1)
		s.create(defaultKey, nil)
		s.wait(time.Millisecond)
		s.equal("records", s.identities(defaultKey), "[a]")
		s.expect(a, false, "live peers has precedence")
		s.putRecord(defaultKey, "b", kopfRecord(1, time.Minute))
		s.wait(0)
		s.expect(a, true, `"b" (priority 1)`)
		s.delete(defaultKey)
		s.wait(0)
		s.expect(a, false, "the peering object does not exist")
		s.create(defaultKey, map[string]any{"c": map[string]any{"priority": int64(9)}})
		s.wait(0)
		s.expect(a, true, `"c" (priority 9)`)
		s.equal("errors", a.Readyz(nil), nil)
	})
}

// PEER-23: paused operators renew their records.
func TestKeepalive_DuringPause(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, map[string]any{"freeze": map[string]any{"priority": int64(100), "lifetime": int64(3600)}})
		a := s.start(Options{Identity: "a"})
		s.takePatches()
		s.wait(10 * time.Minute)
		s.expect(a, true, "freeze")
		if n := len(s.takePatches()); n < 10 || n > 12 {
			s.Errorf("got %d writes, want 10 to 12", n)
		}
	})
}

// PEER-24, SET-09: the operator logs writes at verbosity 1, unless Stealth is set. It always logs a missing object.
func TestStealth(t *testing.T) {
	for stealth, want := range map[bool]bool{false: true, true: false} {
		simulate(t, func(s *simulation) {
			s.create(defaultKey, nil)
			a := s.start(Options{Stealth: stealth})
			s.wait(2 * time.Minute)
			if got := a.logged("Renewed the record") > 0; got != want {
				s.Errorf("stealth = %t: logged = %t, want %t", stealth, got, want)
			}
			s.delete(defaultKey)
			s.wait(0)
			s.equal("log lines about the missing object", a.logged("The peering object does not exist"), 1)
		})
	}
}

// If another client removes a record, the operator writes it again at a limited rate.
func TestKeepalive_RecordRemovedByOthers(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		s.start(Options{Identity: "a"})
		s.wait(time.Minute)
		s.takePatches()
		for range 60 { // an operator with a wrong clock removes the record repeatedly
			s.putRecord(defaultKey, "a", nil)
			s.wait(time.Second)
		}
		ours := 0
		for _, p := range s.takePatches() {
			if strings.Contains(p.body, "lastseen") {
				ours++
			}
		}
		if ours < 9 || ours > 13 {
			s.Errorf("got %d writes per minute, want 9 to 13", ours)
		}
		s.wait(5 * time.Second)
		s.equal("records", s.identities(defaultKey), "[a]")
	})
}

// PEER-14: operators with the same identity ignore each other and log this.
func TestIdentity_Shared(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "same"})
		s.wait(3 * time.Minute)
		s.equal("log lines without another operator", a.logged("same identity"), 0)
		b := s.start(Options{Identity: "same"})
		s.wait(3 * time.Minute)
		s.expect(a, false, "")
		s.expect(b, false, "")
		s.equal("log lines", a.logged("Another operator has the same identity"), 1)
	})
}

var errDown = errors.New("connection refused")

func forbidden(verb string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: "kopf.dev", Resource: "clusterkopfpeerings"}, "default", fmt.Errorf("no %s", verb))
}

// If the API server does not respond, the operator pauses when its record expires, not when the request times out.
func TestKeepalive_ServerDoesNotRespond(t *testing.T) {
	for range 20 { // each simulation has other random times
		simulate(t, func(s *simulation) {
			s.create(defaultKey, nil)
			a := s.start(Options{Identity: "a"})
			s.stopResponding()
			s.wait(time.Minute - time.Nanosecond)
			s.expect(a, false, "")
			s.wait(time.Nanosecond)
			s.expect(a, true, "deadline exceeded")
		})
	}
}

// The operator retries failed writes soon and pauses only when its record expires.
func TestKeepalive_Outage(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		s.wait(5 * time.Minute)
		s.failWith(func(string) error { return errDown })
		s.endWatches()
		var last time.Time // time of the last successful write
		for _, p := range s.takePatches() {
			if p.code == 200 {
				last = p.at
			}
		}
		s.wait(time.Until(last.Add(time.Minute - time.Nanosecond)))
		s.expect(a, false, "")
		s.wait(time.Nanosecond)
		s.expect(a, true, "connection refused")
		s.wait(2 * time.Minute)
		s.expect(a, true, "connection refused")
		if err := a.Readyz(nil); err == nil || !strings.Contains(err.Error(), "connection refused") {
			s.Errorf("Readyz = %v, want the connection error", err)
		}
		s.failWith(nil)
		s.wait(11 * time.Second)
		s.expect(a, false, "")
		s.equal("ready", a.Readyz(nil), nil)
		s.equal("transitions", len(a.transitions), 3)
	})
}

// An interruption of the watch does not make peers count as dead.
func TestWatch_Interrupted(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		s.putRecord(defaultKey, "b", kopfRecord(1, time.Minute))
		s.wait(time.Second)
		s.expect(a, true, `"b"`)
		s.failWith(func(string) error { return errDown })
		s.endWatches()
		s.wait(10 * time.Minute)
		s.expect(a, true, `"b"`)
		// The peer was alive during the interruption.
		s.failWith(nil)
		s.putRecord(defaultKey, "b", kopfRecord(1, time.Minute))
		s.wait(20 * time.Second)
		s.expect(a, true, `"b"`)
		s.wait(time.Minute)
		s.expect(a, false, "")
	})
}
