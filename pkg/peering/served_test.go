package peering

import (
	"testing"
	"time"
)

// PEER-02: the status may become a subresource, and cease to be one, while operators run: none takes the other for dead.
func TestTheStatusIsServedDifferently(t *testing.T) {
	for _, options := range []Options{{}, {Mandatory: true}} {
		for _, before := range []bool{false, true} {
			play(t, func(s *scene) {
				s.serve(before)
				s.create(defaultKey, nil)
				high, low := options, options
				high.Identity, high.Priority, low.Identity = "high", 1, "low"
				a, b := s.start(high), s.start(low)
				s.wait(3 * time.Minute)
				for i := range 3 {
					s.serve(before == (i%2 == 1))
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

// Removals that have no effect, as the server looks for them elsewhere by now, are not tried all the time.
func TestCleaningWithoutAnEffect(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a", Lifetime: time.Hour})
		s.log()
		s.serve(true)
		s.mu.Lock()
		s.refresh(defaultKey, "dead", map[string]any{"lifetime": int64(0)})
		s.mu.Unlock()
		s.wait(0)
		s.equal("tries", len(s.log()), 1)
		s.wait(time.Minute)
		s.equal("records", s.identities(defaultKey), "[a]")
		if n := len(s.log()); n > 3 {
			s.Errorf("%d requests a minute", n)
		}
		s.expect(a, false, "")
	})
}

// What the API server says it serves may be older than what it does: nobody works alone meanwhile.
func TestTheServerTellsLateHowTheStatusIsServed(t *testing.T) {
	for _, before := range []bool{false, true} {
		play(t, func(s *scene) {
			s.serve(before)
			s.create(defaultKey, nil)
			s.start(Options{Identity: "high", Priority: 1})
			b := s.start(Options{Identity: "low"})
			s.wait(time.Minute)
			s.mu.Lock()
			s.hasStatus, s.outdated = !before, true
			s.mu.Unlock()
			s.wait(5 * time.Minute)
			s.expect(b, true, "")
			s.mu.Lock()
			s.outdated = false
			s.mu.Unlock()
			s.wait(time.Minute)
			s.expect(b, true, `"high"`)
			if n := len(b.transitions); n != 0 {
				s.Errorf("%d transitions: %+v", n, b.transitions)
			}
		})
	}
}

// An object that goes just before a sign of life is an object that is not there, and no reason to stay paused.
func TestAnObjectThatGoesUnseen(t *testing.T) {
	for _, hasStatus := range []bool{false, true} {
		play(t, func(s *scene) {
			s.serve(hasStatus)
			s.create(defaultKey, nil)
			s.put(defaultKey, "b", python(1, time.Hour))
			a := s.start(Options{Identity: "a"})
			s.expect(a, true, `"b"`)
			s.breakWith(func(verb string) error {
				if verb == "list" {
					return errDown
				}
				return nil
			})
			s.cut()
			s.mu.Lock()
			delete(s.objects, defaultKey)
			s.mu.Unlock()
			s.wait(10 * time.Minute)
			s.expect(a, true, `"b"`) // nobody has looked
			if n := len(s.log()); n > 30 {
				s.Errorf("%d requests in ten minutes", n)
			}
			s.breakWith(nil)
			s.wait(11 * time.Second)
			s.expect(a, false, "there is no peering object")
		})
	}
}

// An object that appears, and cannot be written yet, may have peers: nobody works alone beside them.
func TestAnObjectThatAppearsAndCannotBeWritten(t *testing.T) {
	for name, begin := range map[string]func(*scene){
		"it is served differently": func(s *scene) { s.hasStatus, s.outdated = false, true },
		"the server is busy": func(s *scene) {
			s.fail = func(verb string) error {
				if verb == "patch" {
					return errDown
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				s.serve(true)
				a := s.start(Options{Identity: "a"})
				s.wait(time.Minute)
				s.expect(a, false, "there is no peering object")
				s.mu.Lock()
				begin(s)
				s.mu.Unlock()
				s.create(defaultKey, map[string]any{"b": map[string]any{"priority": int64(1), "lifetime": int64(3600)}})
				s.wait(0)
				s.expect(a, true, "")
				s.wait(time.Minute)
				s.expect(a, true, "")
				s.mu.Lock()
				s.outdated, s.fail = false, nil
				s.mu.Unlock()
				s.wait(15 * time.Second)
				s.expect(a, true, `"b"`)
				s.equal("records", s.identities(defaultKey), "[a b]")
			})
		})
	}
}
