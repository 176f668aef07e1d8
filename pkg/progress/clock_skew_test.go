package progress_test

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Delays are stored as absolute times. A slow clock shortens the delays of other hosts. A fast clock does not prolong
// them if the record proves that the clock was fast.
func TestBegin_ClockSkew(t *testing.T) {
	inStatus := func() client.Object { return withStatus(map[string]any{}) }
	annotated := func() client.Object { return configMap() }
	for _, test := range []struct {
		name    string
		store   progress.Store
		obj     func() client.Object
		skew    time.Duration // skew of the clock of the host that made the attempt
		runtime time.Duration // total duration of the handler's attempts
		want    time.Duration // expected delay on this host
	}{
		{"DLY-14 equal clocks", store, annotated, 0, 0, time.Minute},
		{"DLY-14 equal clocks, long-running handler", store, annotated, 0, time.Hour, time.Minute},
		{"DLY-14 fast clock", store, annotated, time.Hour, 0, time.Minute},
		{"DLY-14 fast clock, long-running handler", store, annotated, time.Hour, 3 * time.Hour, time.Minute},
		{"DLY-14 slightly fast clock", store, annotated, time.Second, time.Hour, time.Minute},
		{"DLY-14 PROG-31 slow clock: the handler is due", store, annotated, -time.Hour, 0, 0},
		{"DLY-14 fast clock, records in the status", progress.Status(""), inStatus, time.Hour, 0, time.Minute},
		{"DLY-14 fast clock, records in the status, handler runs shorter than the skew", progress.Status(""), inStatus, time.Hour, 20 * time.Minute, 21 * time.Minute},
		{"DLY-14 fast clock, records in the status, handler runs longer than the skew", progress.Status(""), inStatus, time.Hour, 2 * time.Hour, 61 * time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := test.obj()
			state := func(now time.Time) *progress.State {
				t.Helper()
				state, err := progress.Load(test.store, obj, []string{"a"})
				if err != nil {
					t.Fatal(err)
				}
				state.Begin("create", []string{"a"}, now)
				return state
			}
			save := func(state *progress.State) {
				t.Helper()
				if err := state.Save(test.store, obj); err != nil {
					t.Fatal(err)
				}
			}
			theirs := state(t0.Add(test.skew - test.runtime))
			theirs.RecordOutcome("a", again(time.Minute), t0.Add(test.skew))
			save(theirs)
			ours := state(t0)
			delay, left := ours.Delay(t0)
			if delay != test.want || !left {
				t.Errorf("delay = %s, %t, want %s", delay, left, test.want)
			}
			equal(t, "due", len(ours.Due(t0)) == 1, test.want == 0)
			save(ours)
			delay, _ = state(t0.Add(test.want / 2)).Delay(t0.Add(test.want / 2))
			equal(t, "delay later", delay, test.want/2)
			equal(t, "the timeout starts in the future", state(t0).Record("a").Started.After(t0), false)
		})
	}
}

func TestBegin_ExtremeClockSkew(t *testing.T) {
	then := time.Date(9998, 12, 31, 0, 0, 0, 0, time.UTC)
	state := newState(t, objectWith(t, map[string]progress.Record{"a": {Started: then, Delayed: then.Add(time.Minute), Purpose: "create", Retries: 1}}), "create", "a")
	if delay, left := state.Delay(t0); delay != time.Minute || !left {
		t.Errorf("delay = %s, %t, want 1m0s, true", delay, left)
	}
}

// Adopt also corrects the delays of sub-handlers, which Begin does not know.
func TestAdopt_ClockSkew(t *testing.T) {
	obj := objectWith(t, map[string]progress.Record{
		"p":   {Started: t0.Add(time.Hour), Delayed: t0.Add(time.Hour), Attempted: t0.Add(time.Hour), Purpose: "create", Subrefs: []string{"p/a"}},
		"p/a": {Started: t0.Add(-time.Hour), Delayed: t0.Add(2 * time.Hour), Attempted: t0.Add(time.Hour), Purpose: "create", Retries: 1, Message: "m"},
	})
	state := newState(t, obj, "create", "p")
	equal(t, "number of due parents", len(state.Due(t0)), 1)
	if err := state.Adopt(store, obj, "p", []string{"p/a"}, t0); err != nil {
		t.Fatal(err)
	}
	delay, left := state.DelayBelow("p", t0)
	if delay != time.Hour || !left {
		t.Errorf("delay = %s, %t, want 1h0m0s, true", delay, left)
	}
}

// KW-06: a handler receives the attempts in the record, including those of other processes.
func TestRecord_AttemptAcrossRestarts(t *testing.T) {
	obj := configMap()
	state := newState(t, obj, "create", "a")
	equal(t, "KW-06 first attempt", state.Record("a").Attempt(), progress.Attempt{Started: t0})
	state.RecordOutcome("a", again(0), t0.Add(time.Second))
	if err := state.Save(store, obj); err != nil {
		t.Fatal(err)
	}
	later := loadState(t, obj, "a")
	later.Begin("create", []string{"a"}, t0.Add(time.Hour))
	equal(t, "KW-06 later attempt by another process", later.Record("a").Attempt(),
		progress.Attempt{Number: 1, Started: t0, Last: errBoom.Error()})
}
