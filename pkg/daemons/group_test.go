package daemons_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// crowd ensures so many timers of different objects.
func crowd(s *scene, n int, task daemons.Task) {
	for i := range n {
		if err := s.Ensure(daemons.Key{UID: types.UID(fmt.Sprint(i)), ID: key.ID}, task); err != nil {
			s.Fatal(err)
		}
	}
	synctest.Wait()
}

// B-43: no more than the limit at the same time; the others wait for their turn.
func TestMaxParallel(t *testing.T) {
	for _, test := range []struct {
		name  string
		limit int
		want  int
	}{{"by default", 0, daemons.DefaultMaxParallel}, {"one", 1, 1}, {"three", 3, 3}, {"more than there are", 200, 100}} {
		t.Run("B-43 "+test.name, func(t *testing.T) {
			play(t, daemons.Options{}, func(s *scene) {
				running, most := 0, 0
				crowd(s, 100, daemons.Task{
					Kind: s.kind, Timer: &daemons.Timer{Interval: time.Hour, MaxParallel: test.limit},
					Run: s.noting(func(context.Context, int) error {
						s.mu.Lock()
						running++
						most = max(most, running)
						s.mu.Unlock()
						<-time.After(time.Second)
						s.mu.Lock()
						running--
						s.mu.Unlock()
						return nil
					}),
				})
				s.same("due", value(t, metrics.TimersDue.WithLabelValues(s.kind, key.ID)), float64(100-test.want))
				s.same("timers", value(t, metrics.Timers.WithLabelValues(s.kind, key.ID)), 100.0)
				pass(30 * time.Minute)
				s.same("B-43 at the same time", most, test.want)
				s.same("invocations", len(s.seen()), 100)
				s.same("due at the end", value(t, metrics.TimersDue.WithLabelValues(s.kind, key.ID)), 0.0)
			})
		})
	}
}

// Who is due first goes first, and a timer that fails at once goes to the end of the line.
func TestWaitingTimersKeepTheirOrder(t *testing.T) {
	play(t, daemons.Options{}, func(s *scene) {
		var order []int
		failed := false
		for i := range 5 {
			err := s.Ensure(daemons.Key{UID: types.UID(fmt.Sprint(i)), ID: key.ID}, daemons.Task{
				InitialDelay: time.Duration(i) * time.Millisecond, Timer: &daemons.Timer{Interval: time.Hour, MaxParallel: 1},
				Run: func(context.Context, attempt) error {
					order = append(order, i)
					<-time.After(time.Second)
					if i == 1 && !failed {
						failed = true
						return progress.Temporary(errBoom, 0)
					}
					return nil
				},
			})
			if err != nil {
				s.Fatal(err)
			}
		}
		pass(time.Minute)
		s.same("order", order, []int{0, 1, 2, 3, 4, 1})
	})
}

// Groups do not wait for each other; those with one name are one.
func TestGroups(t *testing.T) {
	for _, test := range []struct {
		name   string
		second daemons.Key
		kind   string
		group  string
		want   int // at the same time
	}{
		{"the same handler", daemons.Key{UID: "b", ID: "a"}, "", "", 1},
		{"another handler", daemons.Key{UID: "b", ID: "b"}, "", "", 2},
		{"another kind", daemons.Key{UID: "b", ID: "a"}, "other", "", 2},
		{"another handler of a common group", daemons.Key{UID: "b", ID: "b"}, "other", "common", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, daemons.Options{}, func(s *scene) {
				task := daemons.Task{Timer: &daemons.Timer{Interval: time.Hour, MaxParallel: 1, Group: test.group}, Run: s.noting(deaf(time.Second))}
				for i, k := range []daemons.Key{{UID: "a", ID: "a"}, test.second} {
					if i == 1 {
						task.Kind = test.kind
					}
					if err := s.Ensure(k, task); err != nil {
						s.Fatal(err)
					}
				}
				synctest.Wait()
				s.same("at the same time", len(s.seen()), test.want)
				pass(time.Minute)
				s.same("in the end", len(s.seen()), 2)
			})
		})
	}
}

// What waits for its turn can be stopped, touched and paused.
func TestWaitingInLine(t *testing.T) {
	for _, test := range []struct {
		name string
		act  func(*scene)
		want []time.Duration
	}{
		{"waits", func(*scene) {}, seconds(10, 20, 30)},
		{"stopped", func(s *scene) { s.Stop(daemons.Key{UID: "1", ID: key.ID}, daemons.ErrFilteredOut) }, seconds(10, 20)},
		{"TIM-05 touched: idle again", func(s *scene) { s.Touch("1") }, seconds(10, 20, 30)},
		{"TIM-05 touched, with nobody else waiting", func(s *scene) { s.Stop(daemons.Key{UID: "2", ID: key.ID}, nil); s.Touch("1") }, seconds(10, 25)},
		{"a place in the group is free again", func(s *scene) { s.Forget("0"); pass(5 * time.Second) }, seconds(10, 20, 30)},
		{"paused", func(s *scene) { s.Pause(); pass(100 * time.Second); s.Resume() }, seconds(10, 115, 125, 135)},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, daemons.Options{}, func(s *scene) {
				crowd(s, 3, daemons.Task{
					Timer: &daemons.Timer{Interval: time.Hour, Idle: 10 * time.Second, MaxParallel: 1}, Run: s.noting(deaf(10 * time.Second)),
				})
				pass(15 * time.Second)
				test.act(s)
				pass(10 * time.Minute)
				times := s.times()
				slices.Sort(times)
				s.same("invocations", times, test.want)
			})
		})
	}
}

// An abandoned invocation does not hold its place in the group.
func TestAbandonedLeavesItsPlace(t *testing.T) {
	play(t, daemons.Options{GracePeriod: time.Second}, func(s *scene) {
		crowd(s, 2, daemons.Task{Timer: &daemons.Timer{Interval: time.Hour, MaxParallel: 1}, Run: s.noting(deaf(20 * time.Minute))})
		s.Forget("0")
		pass(10 * time.Minute)
		s.same("invocations", s.times(), seconds(0, 1))
	})
}
