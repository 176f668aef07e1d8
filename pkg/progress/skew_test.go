package progress_test

import (
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Delays are moments, not durations: a host whose clock is ahead or behind shifts them for the others.
func TestDelaysAreMoments(t *testing.T) {
	for _, test := range []struct {
		name string
		skew time.Duration // of the host that has made the attempt
		want time.Duration // to wait on this one
	}{
		{"DLY-14 clocks agree", 0, time.Minute},
		{"DLY-14 the other was ahead", time.Hour, time.Hour + time.Minute},
		{"DLY-14 PROG-31 the other was behind: it is due", -time.Hour, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := configMap()
			theirs := begun(t, obj, "create", "a")
			theirs.Settle("a", again(time.Minute), t0.Add(test.skew))
			if err := theirs.Save(store, obj); err != nil {
				t.Fatal(err)
			}
			ours := begun(t, obj, "create", "a")
			delay, left := ours.Delay(t0)
			if delay != test.want || !left {
				t.Errorf("delay = %s, %t, want %s", delay, left, test.want)
			}
			equal(t, "due", len(ours.Due(t0)) == 1, test.want == 0)
		})
	}
}

// KW-06: what a handler is told of its attempts is what the record remembers, whoever has made them.
func TestAttemptsAreToldFromTheRecord(t *testing.T) {
	obj := configMap()
	state := begun(t, obj, "create", "a")
	equal(t, "KW-06 at first", state.Record("a").Attempt(), progress.Attempt{Started: t0})
	state.Settle("a", again(0), t0.Add(time.Second))
	if err := state.Save(store, obj); err != nil {
		t.Fatal(err)
	}
	later := loaded(t, obj, "a")
	later.Begin("create", []string{"a"}, t0.Add(time.Hour))
	equal(t, "KW-06 by another process, later", later.Record("a").Attempt(),
		progress.Attempt{Number: 1, Started: t0, Last: errBoom.Error()})
}
