package peering

import (
	"testing"
	"time"
)

// PEER-02: the status can become a subresource, and cease to be one, while operators run, and no peer is considered
// dead.
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
						s.Errorf("a transition: %+v", tr)
					}
				}
			})
		}
	}
}

// Removals without effect, because the status subresource changed, are not repeated continuously.
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
		s.equal("tries", len(s.takePatches()), 1)
		s.wait(time.Minute)
		s.equal("records", s.identities(defaultKey), "[a]")
		if n := len(s.takePatches()); n > 3 {
			s.Errorf("%d requests a minute", n)
		}
		s.expect(a, false, "")
	})
}

// Discovery can be outdated; operators pause in the meantime.
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
				s.Errorf("%d transitions: %+v", n, b.transitions)
			}
		})
	}
}

// An object that is deleted just before a write is treated as missing, and does not keep the operator paused.
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
				s.Errorf("%d requests in ten minutes", n)
			}
			s.failWith(nil)
			s.wait(11 * time.Second)
			s.expect(a, false, "the peering object does not exist")
		})
	}
}

// An object that is created but cannot be written may have peers, so the operator pauses.
func TestObject_CreatedButNotWritable(t *testing.T) {
	for name, begin := range map[string]func(*simulation){
		"it is served differently": func(s *simulation) { s.hasStatus, s.reportsOldSubresource = false, true },
		"the server is busy": func(s *simulation) {
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
			})
		})
	}
}
