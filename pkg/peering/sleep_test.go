package peering

import (
	"testing"
	"time"
)

// While a laptop sleeps, the others take it for dead, and its own timers stand still. It pauses when it wakes, until it is known again.
func TestASleep(t *testing.T) {
	for slept, pauses := range map[time.Duration]bool{8 * time.Hour: true, time.Minute: true, 20 * time.Second: false} {
		play(t, func(s *scene) {
			s.create(defaultKey, nil)
			a := s.start(Options{Identity: "laptop", Priority: DevPriority})
			s.wait(10 * time.Second)
			s.log()
			s.breakWith(func(string) error { return errDown }) // there is no network yet
			a.slept.Add(int64(slept))
			s.wait(time.Second)
			if pauses {
				s.expect(a, true, "connection refused")
				s.equal("the reason at first", a.logged("the machine has slept"), 1)
			} else {
				s.expect(a, false, "")
			}
			s.equal("signs of life at once", len(s.log()), 1)
			s.wait(15 * time.Second)
			if paused, _ := a.Paused(""); pauses != paused {
				s.Errorf("paused: %t", paused)
			}
			if n := len(s.log()); n > 4 {
				s.Errorf("%d tries", n)
			}
			s.breakWith(nil)
			s.wait(10 * time.Second)
			s.expect(a, false, "")
			s.log()
			s.wait(time.Hour)
			if n := len(s.log()); n > 3600/50+1 {
				s.Errorf("%d writes an hour", n)
			}
			s.expect(a, false, "")
		})
	}
}

// A clock that is put back, or corrected by little, is no sleep.
func TestAClockThatIsSet(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Second} {
		play(t, func(s *scene) {
			s.create(defaultKey, nil)
			a := s.start(Options{Identity: "a"})
			s.wait(10 * time.Second)
			s.log()
			a.slept.Add(int64(by))
			s.wait(30 * time.Second)
			s.equal("signs of life", len(s.log()), 0)
			s.wait(time.Hour)
			s.equal("transitions", len(a.transitions), 1)
		})
	}
}
