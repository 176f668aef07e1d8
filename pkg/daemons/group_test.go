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

// ensureMany adds the task for n objects.
func ensureMany(s *supervisorTest, n int, task daemons.Task) {
	for i := range n {
		if err := s.Ensure(daemons.Key{UID: types.UID(fmt.Sprint(i)), ID: key.ID}, task); err != nil {
			s.Fatal(err)
		}
	}
	synctest.Wait()
}

// B-43: the number of concurrent runs does not exceed the limit.
func TestGroup_MaxParallel(t *testing.T) {
	for _, test := range []struct {
		name  string
		limit int
		want  int
	}{{"by default", 0, daemons.DefaultMaxParallel}, {"one", 1, 1}, {"three", 3, 3}, {"more than the number of timers", 200, 100}} {
		t.Run("B-43 "+test.name, func(t *testing.T) {
			runTest(t, daemons.Options{}, func(s *supervisorTest) {
				running, most := 0, 0
				ensureMany(s, 100, daemons.Task{
					Kind: s.kind, Timer: &daemons.Timer{Interval: time.Hour, MaxParallel: test.limit},
					Run: s.recordCalls(func(context.Context, int) error {
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
				s.equal("number of due timers", metricValue(t, metrics.TimersDue.WithLabelValues(s.kind, key.ID)), float64(100-test.want))
				s.equal("timers", metricValue(t, metrics.Timers.WithLabelValues(s.kind, key.ID)), 100.0)
				advance(30 * time.Minute)
				s.equal("B-43 concurrent runs", most, test.want)
				s.equal("invocations", len(s.recordedCalls()), 100)
				s.equal("timers due at the end", metricValue(t, metrics.TimersDue.WithLabelValues(s.kind, key.ID)), 0.0)
			})
		})
	}
}

// Timers run in the order of their due times. A timer that fails moves to the end of the queue.
func TestGroup_QueueOrder(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
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
		advance(time.Minute)
		s.equal("order", order, []int{0, 1, 2, 3, 4, 1})
	})
}

// Groups are independent of each other. Timers of the same group share a limit.
func TestGroup_SharedLimit(t *testing.T) {
	for _, test := range []struct {
		name   string
		second daemons.Key
		kind   string
		group  string
		want   int // maximum of concurrent runs
	}{
		{"the same handler", daemons.Key{UID: "b", ID: "a"}, "", "", 1},
		{"another handler", daemons.Key{UID: "b", ID: "b"}, "", "", 2},
		{"another kind", daemons.Key{UID: "b", ID: "a"}, "other", "", 2},
		{"another handler of a common group", daemons.Key{UID: "b", ID: "b"}, "other", "common", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			runTest(t, daemons.Options{}, func(s *supervisorTest) {
				task := daemons.Task{Timer: &daemons.Timer{Interval: time.Hour, MaxParallel: 1, Group: test.group}, Run: s.recordCalls(ignoreContext(time.Second))}
				for i, k := range []daemons.Key{{UID: "a", ID: "a"}, test.second} {
					if i == 1 {
						task.Kind = test.kind
					}
					if err := s.Ensure(k, task); err != nil {
						s.Fatal(err)
					}
				}
				synctest.Wait()
				s.equal("concurrent runs", len(s.recordedCalls()), test.want)
				advance(time.Minute)
				s.equal("runs in total", len(s.recordedCalls()), 2)
			})
		})
	}
}

// Queued timers can be stopped, touched and paused.
func TestGroup_QueuedTimers(t *testing.T) {
	for _, test := range []struct {
		name string
		act  func(*supervisorTest)
		want []time.Duration
	}{
		{"queued timers run one by one", func(*supervisorTest) {}, seconds(10, 20, 30)},
		{"a stopped timer leaves the queue", func(s *supervisorTest) { s.Stop(daemons.Key{UID: "1", ID: key.ID}, daemons.ErrFilteredOut) }, seconds(10, 20)},
		{"TIM-05 a touch restarts the idle time", func(s *supervisorTest) { s.Touch("1") }, seconds(10, 20, 30)},
		{"TIM-05 a touch of the only queued timer", func(s *supervisorTest) { s.Stop(daemons.Key{UID: "2", ID: key.ID}, nil); s.Touch("1") }, seconds(10, 25)},
		{"another timer frees its slot", func(s *supervisorTest) { s.Forget("0"); advance(5 * time.Second) }, seconds(10, 20, 30)},
		{"a pause stops the running timer", func(s *supervisorTest) { s.Pause(); advance(100 * time.Second); s.Resume() }, seconds(10, 115, 125, 135)},
	} {
		t.Run(test.name, func(t *testing.T) {
			runTest(t, daemons.Options{}, func(s *supervisorTest) {
				ensureMany(s, 3, daemons.Task{
					Timer: &daemons.Timer{Interval: time.Hour, Idle: 10 * time.Second, MaxParallel: 1}, Run: s.recordCalls(ignoreContext(10 * time.Second)),
				})
				advance(15 * time.Second)
				test.act(s)
				advance(10 * time.Minute)
				times := s.callTimes()
				slices.Sort(times)
				s.equal("invocations", times, test.want)
			})
		})
	}
}

func TestGroup_AbandonedRunFreesItsSlot(t *testing.T) {
	runTest(t, daemons.Options{GracePeriod: time.Second}, func(s *supervisorTest) {
		ensureMany(s, 2, daemons.Task{Timer: &daemons.Timer{Interval: time.Hour, MaxParallel: 1}, Run: s.recordCalls(ignoreContext(20 * time.Minute))})
		s.Forget("0")
		advance(10 * time.Minute)
		s.equal("invocations", s.callTimes(), seconds(0, 1))
	})
}
