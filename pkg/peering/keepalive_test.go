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

// PEER-20, PEER-08, SET-08, SET-11: a record at the start, then one each lifetime less five to ten seconds, and nothing else.
func TestSignsOfLife(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		s.start(Options{Identity: "a", Priority: 3})
		s.wait(time.Hour)
		patches := s.log()
		steps := map[time.Duration]bool{}
		for i, p := range patches {
			want := `{"status":{"a":{"priority":3,"lifetime":60,"lastseen":"` + timestamp(p.at) + `"}}}`
			if p.body != want || p.code != 200 {
				s.Fatalf("%d: %s, not %s", p.code, p.body, want)
			}
			if i > 0 {
				steps[p.at.Sub(patches[i-1].at)] = true
			}
		}
		for step := range steps {
			if step < 50*time.Second || step > 55*time.Second || step%time.Second != 0 {
				s.Errorf("a step of %s", step)
			}
		}
		if len(steps) < 4 {
			s.Errorf("chance has %d faces", len(steps))
		}
		if n := len(patches); n < 3600/55 || n > 3600/50+1 {
			s.Errorf("%d writes an hour", n)
		}
	})
}

// PEER-20: also lifetimes that are shorter than the margin.
func TestShortLifetimes(t *testing.T) {
	for lifetime, want := range map[int][2]int{1: {1, 1}, 5: {1, 1}, 8: {1, 3}, 15: {5, 10}, 3600: {3590, 3595}} {
		m := &member{Peering: &Peering{options: Options{Lifetime: time.Duration(lifetime) * time.Second}}}
		for range 100 {
			if got := m.interval(); got < time.Duration(want[0])*time.Second || got > time.Duration(want[1])*time.Second {
				t.Fatalf("a lifetime of %d: a sign after %s", lifetime, got)
			}
		}
	}
}

// A thousand events of others cost no write.
func TestLooksCostNothing(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		s.log()
		for i := range 1000 {
			s.put(defaultKey, "low", python(-1, time.Duration(i+60)*time.Second))
			s.wait(time.Millisecond)
		}
		for _, p := range s.log() {
			if !strings.Contains(p.body, `"low"`) {
				s.Errorf("a write: %s", p.body)
			}
		}
		s.expect(a, false, "1 that are alive")
	})
}

// PEER-21: the record is removed at the end, at once, and only this one.
func TestGoodbye(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, map[string]any{"junk": "x"})
		a := s.start(Options{Identity: "a"})
		s.equal("records", s.identities(defaultKey), "[a junk]")
		s.log()
		before := time.Now()
		a.stop()
		s.equal("time taken", time.Since(before), time.Duration(0))
		patches := s.log()
		s.equal("requests", len(patches), 1)
		s.equal("body", patches[0].body, `{"status":{"a":null}}`)
		s.expect(a, true, "shutting down")
	})
}

// A goodbye that nobody answers does not hold the exit for more than two seconds.
func TestGoodbyeWithoutAnAnswer(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		s.setMute()
		before := time.Now()
		a.stop()
		s.equal("time taken", time.Since(before), 2*time.Second)
		s.equal("told", a.logged("was not removed"), 1)
	})
}

// PEER-22, PEER-41: without the object, signs of life go on and are in vain; when it appears, we are there at once.
func TestAMissingObject(t *testing.T) {
	play(t, func(s *scene) {
		a := s.start(Options{Identity: "a"})
		s.expect(a, false, "no peering object")
		s.wait(10 * time.Minute)
		patches := s.log()
		if n := len(patches); n < 11 || n > 13 {
			s.Errorf("%d signs of life", n)
		}
		s.equal("told", a.logged("There is no peering object"), 1)
		s.create(defaultKey, nil)
		s.wait(time.Millisecond)
		s.equal("records", s.identities(defaultKey), "[a]")
		s.expect(a, false, "no peer has precedence")
		s.put(defaultKey, "b", python(1, time.Minute))
		s.wait(0)
		s.expect(a, true, `"b" (priority 1)`)
		s.delete(defaultKey)
		s.wait(0)
		s.expect(a, false, "no peering object")
		s.create(defaultKey, map[string]any{"c": map[string]any{"priority": int64(9)}})
		s.wait(0)
		s.expect(a, true, `"c" (priority 9)`)
		s.equal("errors", a.Readyz(nil), nil)
	})
}

// PEER-23: also those that are paused give signs of life.
func TestSignsOfLifeDuringAPause(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, map[string]any{"freeze": map[string]any{"priority": int64(100), "lifetime": int64(3600)}})
		a := s.start(Options{Identity: "a"})
		s.log()
		s.wait(10 * time.Minute)
		s.expect(a, true, "freeze")
		if n := len(s.log()); n < 10 || n > 12 {
			s.Errorf("%d signs of life", n)
		}
	})
}

// PEER-24, SET-09: they are in the log with verbosity 1, unless stealth; what is missing is there always.
func TestStealth(t *testing.T) {
	for stealth, want := range map[bool]bool{false: true, true: false} {
		play(t, func(s *scene) {
			s.create(defaultKey, nil)
			a := s.start(Options{Stealth: stealth})
			s.wait(2 * time.Minute)
			if got := a.logged("Sign of life") > 0; got != want {
				s.Errorf("stealth %t: in the log: %t", stealth, got)
			}
			s.delete(defaultKey)
			s.wait(0)
			s.equal("what is missing", a.logged("There is no peering object"), 1)
		})
	}
}

// A record of ours that somebody has removed comes back, though not in a war over it.
func TestARemovedRecordComesBack(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		s.start(Options{Identity: "a"})
		s.wait(time.Minute)
		s.log()
		for range 60 { // an operator whose clock is wrong
			s.put(defaultKey, "a", nil)
			s.wait(time.Second)
		}
		ours := 0
		for _, p := range s.log() {
			if strings.Contains(p.body, "lastseen") {
				ours++
			}
		}
		if ours < 9 || ours > 13 {
			s.Errorf("written %d times a minute", ours)
		}
		s.wait(5 * time.Second)
		s.equal("records", s.identities(defaultKey), "[a]")
	})
}

// PEER-14: two operators with one identity do not notice each other, but we say so.
func TestOneIdentityForTwo(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "same"})
		s.wait(3 * time.Minute)
		s.equal("alone", a.logged("same identity"), 0)
		b := s.start(Options{Identity: "same"})
		s.wait(3 * time.Minute)
		s.expect(a, false, "")
		s.expect(b, false, "")
		s.equal("told", a.logged("Another operator has the same identity"), 1)
	})
}

var errDown = errors.New("connection refused")

func forbidden(verb string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: "kopf.dev", Resource: "clusterkopfpeerings"}, "default", fmt.Errorf("no %s", verb))
}

// A server that does not answer: the pause begins when the others may take us for dead, not when a request gives up.
func TestAServerThatDoesNotAnswer(t *testing.T) {
	for range 20 { // moments of chance
		play(t, func(s *scene) {
			s.create(defaultKey, nil)
			a := s.start(Options{Identity: "a"})
			s.setMute()
			s.wait(time.Minute - time.Nanosecond)
			s.expect(a, false, "")
			s.wait(time.Nanosecond)
			s.expect(a, true, "deadline exceeded")
		})
	}
}

// When signs of life fail, they are tried again soon; only when the others may take us for dead, we pause.
func TestAnOutage(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		s.wait(5 * time.Minute)
		s.breakWith(func(string) error { return errDown })
		s.cut()
		var last time.Time // that our record was written
		for _, p := range s.log() {
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
			s.Errorf("ready: %v", err)
		}
		s.breakWith(nil)
		s.wait(11 * time.Second)
		s.expect(a, false, "")
		s.equal("ready", a.Readyz(nil), nil)
		s.equal("transitions", len(a.transitions), 3)
	})
}

// A watch that is cut takes nothing away: peers that could not be seen meanwhile are not taken for dead.
func TestACutWatch(t *testing.T) {
	play(t, func(s *scene) {
		s.create(defaultKey, nil)
		a := s.start(Options{Identity: "a"})
		s.put(defaultKey, "b", python(1, time.Minute))
		s.wait(time.Second)
		s.expect(a, true, `"b"`)
		s.breakWith(func(string) error { return errDown })
		s.cut()
		s.wait(10 * time.Minute)
		s.expect(a, true, `"b"`)
		// It has been there all the time.
		s.breakWith(nil)
		s.put(defaultKey, "b", python(1, time.Minute))
		s.wait(20 * time.Second)
		s.expect(a, true, `"b"`)
		s.wait(time.Minute)
		s.expect(a, false, "")
	})
}
