package peering

import (
	"testing"
	"time"
)

// After a suspension, peers may consider the operator dead. The operator pauses until it has renewed its record.
func TestSuspension_Pauses(t *testing.T) {
	for slept, pauses := range map[time.Duration]bool{8 * time.Hour: true, time.Minute: true, 20 * time.Second: false} {
		simulate(t, func(s *simulation) {
			s.create(defaultKey, nil)
			a := s.start(Options{Identity: "laptop", Priority: DevPriority})
			s.wait(10 * time.Second)
			s.takePatches()
			s.failWith(func(string) error { return errDown }) // the network is not available yet
			a.wallOffset.Add(int64(slept))
			s.wait(time.Second)
			if pauses {
				s.expect(a, true, "connection refused")
				s.equal("log lines about the suspension", a.logged("the machine was suspended"), 1)
			} else {
				s.expect(a, false, "")
			}
			s.equal("writes", len(s.takePatches()), 1)
			s.wait(15 * time.Second)
			if paused, _ := a.Paused(""); pauses != paused {
				s.Errorf("paused = %t, want %t", paused, pauses)
			}
			if n := len(s.takePatches()); n > 4 {
				s.Errorf("got %d attempts, want at most 4", n)
			}
			s.failWith(nil)
			s.wait(10 * time.Second)
			s.expect(a, false, "")
			s.takePatches()
			s.wait(time.Hour)
			if n := len(s.takePatches()); n > 3600/50+1 {
				s.Errorf("got %d writes per hour, want at most 73", n)
			}
			s.expect(a, false, "")
		})
	}
}

// If a clock is set back or corrected slightly, the operator does not detect a suspension.
func TestSuspension_ClockIsSet(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Second} {
		simulate(t, func(s *simulation) {
			s.create(defaultKey, nil)
			a := s.start(Options{Identity: "a"})
			s.wait(10 * time.Second)
			s.takePatches()
			a.wallOffset.Add(int64(by))
			s.wait(30 * time.Second)
			s.equal("number of writes", len(s.takePatches()), 0)
			s.wait(time.Hour)
			s.equal("transitions", len(a.transitions), 1)
		})
	}
}
