package loopguard_test

import (
	"slices"
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/loopguard"
)

const limit = 10

var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// run starts cycles one after the other: each begins when the earlier one has ended and the delay has passed. It returns the delays.
func run(g loopguard.Guard, at time.Time, cycle time.Duration, own ...bool) (loopguard.Guard, time.Time, []time.Duration) {
	var delays []time.Duration
	for _, isOwn := range own {
		next, wait := g.Start(at, isOwn, limit)
		delays = append(delays, wait)
		if g = next; wait > 0 {
			at = at.Add(wait)
			g, _ = g.Start(at, isOwn, limit)
		}
		at = at.Add(cycle)
	}
	return g, at, delays
}

func TestGuard_Start(t *testing.T) {
	const s = time.Second
	own, others := slices.Repeat([]bool{true}, 100), []bool{false}
	for _, test := range []struct {
		name  string
		cycle time.Duration
		own   []bool
		want  []time.Duration // the delays of the last cycles
	}{
		{"a chain up to the limit", 0, own[:10], slices.Repeat([]time.Duration{0}, 10)},
		{"a chain above the limit", 0, own[:11], []time.Duration{0, 0, s}},
		{"growing delays", 0, own[:20], []time.Duration{0, s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, time.Minute, time.Minute, time.Minute, time.Minute}},
		{"ten cycles a minute", 6 * s, own, slices.Repeat([]time.Duration{0}, 100)},
		{"eleven cycles a minute", 5 * s, own[:11], []time.Duration{0, 0, s}},
		{"a change by another client begins a new count", 0, slices.Concat(own[:10], others, own[:10]), slices.Repeat([]time.Duration{0}, 21)},
		{"a change by another client during a loop", 0, slices.Concat(own[:13], others, own[:2]), []time.Duration{s, 2 * s, 4 * s, 0, 8 * s, 16 * s}},
		{"cycles of other clients", 0, slices.Repeat(others, 100), slices.Repeat([]time.Duration{0}, 100)},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, delays := run(loopguard.Guard{}, start, test.cycle, test.own...)
			if got := delays[len(delays)-len(test.want):]; !slices.Equal(got, test.want) {
				t.Errorf("delays %v, want %v at the end", delays, test.want)
			}
		})
	}
}

// A cycle that does not start when its time has come does not keep the loop alive.
func TestGuard_Skip(t *testing.T) {
	g, at, _ := run(loopguard.Guard{}, start, 0, slices.Repeat([]bool{true}, limit)...)
	g, wait := g.Start(at, true, limit)
	if early := g.Skip(at); early.Held().IsZero() {
		t.Error("before its time, the cycle was dropped")
	}
	at = at.Add(wait)
	if g = g.Skip(at); !g.Held().IsZero() || !g.Looping() {
		t.Errorf("after its time: held until %v, looping = %t, want no waiting cycle in a loop", g.Held(), g.Looping())
	}
	g, left := g.Expire(at)
	if left <= 0 || left > loopguard.Window {
		t.Fatalf("the loop ends after %v, want at most %v", left, loopguard.Window)
	}
	if g, _ = g.Expire(at.Add(left)); !g.Empty() {
		t.Errorf("after the window: %+v, want an empty guard", g)
	}
}

func TestGuard_StartAgain(t *testing.T) {
	g, at, _ := run(loopguard.Guard{}, start, 0, slices.Repeat([]bool{true}, limit)...)
	g, wait := g.Start(at, true, limit)
	if !g.Looping() || !g.Held().Equal(at.Add(wait)) {
		t.Fatalf("looping %v, held until %v, want a loop, and %v", g.Looping(), g.Held(), at.Add(wait))
	}
	if _, left := g.Start(at.Add(wait/4), true, limit); left != wait*3/4 {
		t.Errorf("the cycle must wait %v more, want %v", left, wait*3/4)
	}
	if released, left := g.Start(at.Add(wait), true, limit); left != 0 || !released.Held().IsZero() {
		t.Errorf("after the delay, the cycle must wait %v, held until %v", left, released.Held())
	}
	if released, left := g.Start(at.Add(wait/4), false, limit); left != 0 || !released.Held().IsZero() || !released.Looping() {
		t.Errorf("a change by another client must wait %v, held until %v, looping %v", left, released.Held(), released.Looping())
	}
}

func TestGuard_Expire(t *testing.T) {
	looping, at, _ := run(loopguard.Guard{}, start, 0, slices.Repeat([]bool{true}, limit+3)...)
	held, _ := looping.Start(at, true, limit)
	counted, _, _ := run(loopguard.Guard{}, start, 0, true)
	for _, test := range []struct {
		name             string
		guard            loopguard.Guard
		at               time.Time
		isLooping, empty bool
		left             time.Duration
	}{
		{"nothing is counted", loopguard.Guard{}, start, false, true, 0},
		{"a counted cycle", counted, start.Add(59 * time.Second), false, false, 0},
		{"a counted cycle, a minute later", counted, start.Add(time.Minute), false, true, 0},
		{"a loop", looping, at.Add(20 * time.Second), true, false, 40 * time.Second},
		{"a loop without a cycle for a minute", looping, at.Add(time.Minute), false, true, 0},
		{"a waiting cycle", held, at.Add(time.Second), true, false, held.Held().Sub(at.Add(time.Second))},
		{"a waiting cycle, an hour later", held, at.Add(time.Hour), true, false, time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			g, left := test.guard.Expire(test.at)
			if g.Looping() != test.isLooping || g.Empty() != test.empty || left != test.left {
				t.Errorf("looping %v, empty %v, %v left, want %v, %v, %v", g.Looping(), g.Empty(), left, test.isLooping, test.empty, test.left)
			}
		})
	}
}
