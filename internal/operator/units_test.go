package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
)

// only returns a function that wants these units.
func only(wanted ...string) func(string) bool {
	return func(key string) bool { return slices.Contains(wanted, key) }
}

// describe returns the states of all units, sorted.
func describe(u *operator.Units[string]) (all []string) {
	for key, state := range u.All() {
		all = append(all, fmt.Sprint(key, " ", state.Phase, " ", state.IsRunning, " ", state.Err))
	}
	slices.Sort(all)
	return all
}

// A unit comes, goes and comes again. While it ends, it cannot start again.
func TestUnits_ComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes atomic.Int64
		u := operator.NewUnits[string](metrics.NewNamespaceCount(), func() { changes.Add(1) })
		var j journal
		run := func(name string) func(context.Context) error {
			return func(ctx context.Context) error {
				j.note("start " + name)
				u.Set(name, operator.Serving)
				<-ctx.Done()
				u.Set(name, operator.Leaving)
				<-time.After(time.Minute)
				j.note("end " + name)
				return nil
			}
		}
		start := func(name string) bool { return u.Start(t.Context(), name, run(name)) }
		if !start("a") || !start("b") || start("a") {
			t.Error("a and b must start once")
		}
		synctest.Wait()
		equal(t, describe(u), fmt.Sprint("a ", operator.Serving, " true <nil>"), fmt.Sprint("b ", operator.Serving, " true <nil>"))
		equal(t, u.Stop(only("b")), "a")
		equal(t, u.Stop(only("b")))
		synctest.Wait()
		if phase, _ := u.Phase("a"); phase != operator.Leaving || start("a") {
			t.Errorf("a has the phase %d, and can start again before its end", phase)
		}
		<-time.After(2 * time.Minute)
		if _, exists := u.Phase("a"); exists || changes.Load() != 1 {
			t.Errorf("a exists after its end (%t), or the end was notified %d times", exists, changes.Load())
		}
		if !start("a") {
			t.Error("a does not start again")
		}
		synctest.Wait()
		u.Stop(only())
		u.Wait()
		equal(t, describe(u))
		j.mu.Lock()
		slices.Sort(j.lines)
		j.mu.Unlock()
		j.expect(t, "end a", "end a", "end b", "start a", "start a", "start b")
	})
}

// A unit that has failed starts again after an interval, unless it is no longer wanted.
func TestUnits_Fail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := operator.NewUnits[string](metrics.NewKindCount(), func() {})
		var calls atomic.Int64
		start := func() bool {
			return u.Start(t.Context(), "a", func(context.Context) error { calls.Add(1); return errors.New("broken") })
		}
		start()
		synctest.Wait()
		equal(t, describe(u), fmt.Sprint("a ", operator.Failing, " false broken"))
		if start() {
			t.Error("the unit starts again at once")
		}
		<-time.After(time.Until(u.All()["a"].RetryAt))
		if !start() {
			t.Error("the unit does not start again after the interval")
		}
		synctest.Wait()
		u.Stop(only())
		equal(t, describe(u))
		u.Fail("b", errors.New("impossible"))
		equal(t, describe(u), fmt.Sprint("b ", operator.Failing, " false impossible"))
		if !u.Start(t.Context(), "b", func(ctx context.Context) error { <-ctx.Done(); return nil }) {
			t.Error("b does not start when this becomes possible")
		}
		u.Fail("b", errors.New("impossible"))
		equal(t, describe(u), fmt.Sprint("b ", operator.Starting, " true <nil>"))
		u.Stop(only())
		u.Wait()
		if calls.Load() != 2 {
			t.Errorf("%d starts, want 2", calls.Load())
		}
	})
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
