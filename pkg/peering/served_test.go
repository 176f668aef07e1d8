package peering

import (
	"testing"
	"time"
)

// PEER-02: the status can become a subresource or stop being one while operators run. No peer then counts as dead.
func TestStatusSubresource_Changes(t *testing.T) {
	for _, options := range []Options{{}, {Mandatory: true}} {
		for _, before := range []bool{false, true} {
			simulate(t, func(s *simulation) {
				s.setStatusSubresource(before)
				s.create(defaultKey, nil)
				high, low := options, options
				high.Identity, high.Priority, low.Identity = "high", 1, "low"
				a, b := s.start(high), s.start(low)
				s.wait(3 * time.Minute)
				for i := range 3 {
					s.setStatusSubresource(before == (i%2 == 1))
					s.wait(20 * time.Minute)
					s.expect(a, false, "")
					s.expect(b, true, `"high"`)
					s.equal("records", s.identities(defaultKey), "[high low]")
				}
				s.equal("transitions", len(a.transitions), 1)
				for _, tr := range b.transitions {
					if !tr.Paused {
						s.Errorf("got the transition %+v, want only pauses", tr)
					}
				}
			})
		}
	}
}

// If a removal has no effect because the status subresource changed, the operator does not repeat it continuously.
func TestRemoveDeadPeers_WithoutEffect(t *testing.T) {
	simulate(t, func(s *simulation) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a", Lifetime: time.Hour})
		s.takePatches()
		s.setStatusSubresource(true)
		s.mu.Lock()
		s.putRecordLocked(defaultKey, "dead", map[string]any{"lifetime": int64(0)})
		s.mu.Unlock()
		s.wait(0)
		s.equal("number of attempts", len(s.takePatches()), 1)
		s.wait(time.Minute)
		s.equal("records", s.identities(defaultKey), "[a]")
		if n := len(s.takePatches()); n > 3 {
			s.Errorf("got %d requests per minute, want at most 3", n)
		}
		s.expect(a, false, "")
	})
}

// While discovery is outdated, operators pause.
func TestStatusSubresource_OutdatedDiscovery(t *testing.T) {
	for _, before := range []bool{false, true} {
		simulate(t, func(s *simulation) {
			s.setStatusSubresource(before)
			s.create(defaultKey, nil)
			s.start(Options{Identity: "high", Priority: 1})
			b := s.start(Options{Identity: "low"})
			s.wait(time.Minute)
			s.mu.Lock()
			s.hasStatus, s.reportsOldSubresource = !before, true
			s.mu.Unlock()
			s.wait(5 * time.Minute)
			s.expect(b, true, "")
			s.mu.Lock()
			s.reportsOldSubresource = false
			s.mu.Unlock()
			s.wait(time.Minute)
			s.expect(b, true, `"high"`)
			if n := len(b.transitions); n != 0 {
				s.Errorf("got %d transitions, want none: %+v", n, b.transitions)
			}
		})
	}
}

// An object that is deleted immediately before a write counts as missing. It does not keep the operator paused.
func TestObject_DeletedBeforeWrite(t *testing.T) {
	for _, hasStatus := range []bool{false, true} {
		simulate(t, func(s *simulation) {
			s.setStatusSubresource(hasStatus)
			s.create(defaultKey, nil)
			s.putRecord(defaultKey, "b", kopfRecord(1, time.Hour))
			a := s.start(Options{Identity: "a"})
			s.expect(a, true, `"b"`)
			s.failWith(func(verb string) error {
				if verb == "list" {
					return errDown
				}
				return nil
			})
			s.endWatches()
			s.mu.Lock()
			delete(s.objects, defaultKey)
			s.mu.Unlock()
			s.wait(10 * time.Minute)
			s.expect(a, true, `"b"`) // not observed yet
			if n := len(s.takePatches()); n > 30 {
				s.Errorf("got %d requests in ten minutes, want at most 30", n)
			}
			s.failWith(nil)
			s.wait(11 * time.Second)
			s.expect(a, false, "the peering object does not exist")
		})
	}
}

// If a new object cannot be written, the operator pauses, because the object may have peers.
func TestObject_CreatedButNotWritable(t *testing.T) {
	for name, begin := range map[string]func(*simulation){
		"outdated discovery": func(s *simulation) { s.hasStatus, s.reportsOldSubresource = false, true },
		"a busy server": func(s *simulation) {
			s.fail = func(verb string) error {
				if verb == "patch" {
					return errDown
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(s *simulation) {
				s.setStatusSubresource(true)
				a := s.start(Options{Identity: "a"})
				s.wait(time.Minute)
				s.expect(a, false, "the peering object does not exist")
				s.mu.Lock()
				begin(s)
				s.mu.Unlock()
				s.create(defaultKey, map[string]any{"b": map[string]any{"priority": int64(1), "lifetime": int64(3600)}})
				s.wait(0)
				s.expect(a, true, "")
				s.wait(time.Minute)
				s.expect(a, true, "")
				s.mu.Lock()
				s.reportsOldSubresource, s.fail = false, nil
				s.mu.Unlock()
				s.wait(15 * time.Second)
				s.expect(a, true, `"b"`)
				s.equal("records", s.identities(defaultKey), "[a b]")
				s.equal("log lines about the joined object", a.logged("Joined the peering object"), 1)
			})
		})
	}
}
