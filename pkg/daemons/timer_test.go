package daemons_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A scheduleFunc is a schedule.
type scheduleFunc func(time.Time) time.Time

func (f scheduleFunc) Next(after time.Time) time.Time { return f(after) }

// minutely is a schedule of the full minutes.
var minutely = scheduleFunc(func(after time.Time) time.Time { return after.Truncate(time.Minute).Add(time.Minute) })

// lasting is for invocations that last so long.
func lasting(d time.Duration) func(context.Context, int) error {
	return func(context.Context, int) error {
		<-time.After(d)
		return nil
	}
}

// replying is for invocations that end with these errors, and then without any.
func replying(errs ...error) func(context.Context, int) error {
	return func(_ context.Context, n int) error {
		if n < len(errs) {
			return errs[n]
		}
		return nil
	}
}

// TIM-02 to TIM-04, TIM-11 to TIM-17: when timers are invoked in the first hundred seconds.
func TestTimerRuns(t *testing.T) {
	in := func(d float64) error { return progress.Temporary(errBoom, time.Duration(d*float64(time.Second))) }
	const s = time.Second
	for _, test := range []struct {
		name    string
		timer   daemons.Timer
		initial time.Duration
		policy  progress.Policy
		do      func(context.Context, int) error
		want    []time.Duration
	}{
		{"TIM-03 an interval", daemons.Timer{Interval: 30 * s}, 0, progress.Policy{}, nil, seconds(0, 30, 60, 90)},
		{"TIM-03 from the end", daemons.Timer{Interval: 30 * s}, 0, progress.Policy{}, lasting(10 * s), seconds(0, 40, 80)},
		{"TIM-02 TIM-19 an initial delay", daemons.Timer{Interval: 30 * s}, 20 * s, progress.Policy{}, nil, seconds(20, 50, 80)},
		{"TIM-04 sharp", daemons.Timer{Interval: 30 * s, Sharp: true}, 0, progress.Policy{}, lasting(10 * s), seconds(0, 30, 60, 90)},
		{"TIM-04 sharp and slow: points are left out", daemons.Timer{Interval: 30 * s, Sharp: true}, 0, progress.Policy{}, lasting(40 * s), seconds(0, 60)},
		{"TIM-04 sharp and as slow as the interval", daemons.Timer{Interval: 30 * s, Sharp: true}, 0, progress.Policy{}, lasting(30 * s), seconds(0, 60)},
		{"TIM-04 sharp after an initial delay", daemons.Timer{Interval: 30 * s, Sharp: true}, 7 * s, progress.Policy{}, nil, seconds(7, 37, 67, 97)},
		{"TIM-04 anchored in the past", daemons.Timer{Interval: 30 * s, Sharp: true, Anchor: epoch.Add(-50 * s)}, 0, progress.Policy{}, nil, seconds(10, 40, 70, 100)},
		{"TIM-04 anchored now", daemons.Timer{Interval: 30 * s, Sharp: true, Anchor: epoch}, 0, progress.Policy{}, nil, seconds(0, 30, 60, 90)},
		{"TIM-04 anchored in the future", daemons.Timer{Interval: 30 * s, Sharp: true, Anchor: epoch.Add(100 * s)}, 0, progress.Policy{}, nil, seconds(10, 40, 70, 100)},
		{"TIM-04 anchored very long ago", daemons.Timer{Interval: 30 * s, Sharp: true, Anchor: time.Time{}.Add(s)}, 20 * s, progress.Policy{}, nil, seconds(31, 61, 91)},
		{"TIM-04 anchored, initial delay", daemons.Timer{Interval: 30 * s, Sharp: true, Anchor: epoch.Add(-50 * s)}, 20 * s, progress.Policy{}, nil, seconds(40, 70, 100)},
		{"a schedule", daemons.Timer{Schedule: minutely}, 0, progress.Policy{}, lasting(5 * s), seconds(0, 60)},
		{"a schedule, initial delay", daemons.Timer{Schedule: minutely}, s, progress.Policy{}, nil, seconds(60)},
		{"a schedule, slow", daemons.Timer{Schedule: minutely}, 0, progress.Policy{}, lasting(70 * s), seconds(0)},
		{"last known, due", daemons.Timer{Interval: 30 * s, Last: epoch.Add(-100 * s)}, 0, progress.Policy{}, nil, seconds(0, 30, 60, 90)},
		{"last known, not due", daemons.Timer{Interval: 30 * s, Last: epoch.Add(-20 * s)}, 0, progress.Policy{}, nil, seconds(10, 40, 70, 100)},
		{"last known, in the future", daemons.Timer{Interval: 30 * s, Last: epoch.Add(20 * s)}, 0, progress.Policy{}, nil, seconds(0, 30, 60, 90)},
		{"last known, sharp, due", daemons.Timer{Interval: 30 * s, Sharp: true, Last: epoch.Add(-100 * s)}, 0, progress.Policy{}, nil, seconds(0, 20, 50, 80)},
		{"last known, anchored, due once", daemons.Timer{Interval: 30 * s, Sharp: true, Anchor: epoch.Add(-10 * s), Last: epoch.Add(-11 * s)}, 0, progress.Policy{}, nil, seconds(0, 20, 50, 80)},
		{"last known, a schedule, due", daemons.Timer{Schedule: minutely, Last: epoch.Add(-s)}, 5 * s, progress.Policy{}, nil, seconds(5, 60)},

		{"TIM-12 a temporary error: its delay instead of the interval", daemons.Timer{Interval: 30 * s}, 0, progress.Policy{}, replying(in(5), in(15)), seconds(0, 5, 20, 50, 80)},
		{"TIM-12 another error: the backoff", daemons.Timer{Interval: 10 * s}, 0, progress.Policy{Backoff: new(35 * s)}, replying(errBoom), seconds(0, 35, 45, 55, 65, 75, 85, 95)},
		{"TIM-12 sharp: the points stay", daemons.Timer{Interval: 30 * s, Sharp: true}, 0, progress.Policy{}, replying(in(5), in(35)), seconds(0, 5, 40, 60, 90)},
		{"TIM-17 no delay: at once", daemons.Timer{Interval: 40 * s}, 0, progress.Policy{}, replying(in(0), in(0)), seconds(0, 0, 0, 40, 80)},
		{"B-41 TIM-13 a permanent error stops it", daemons.Timer{Interval: 30 * s}, 0, progress.Policy{}, replying(nil, progress.Permanent(errBoom)), seconds(0, 30)},
		{"B-41 TIM-13 so do permanent errors by mode", daemons.Timer{Interval: 30 * s}, 0, progress.Policy{Errors: progress.ErrorsPermanent}, replying(errBoom), seconds(0)},
		{"B-41 TIM-13 TIM-14 so do the limits of a chain", daemons.Timer{Interval: 30 * s}, 0, progress.Policy{Retries: new(2)}, replying(nil, nil, in(1), in(1)), seconds(0, 30, 60, 61)},
		{"TIM-14 limits are for one chain", daemons.Timer{Interval: 30 * s}, 0, progress.Policy{Retries: new(2)}, replying(in(1), nil, in(1), nil), seconds(0, 1, 31, 32, 62, 92)},
		{"TIM-14 so is the timeout", daemons.Timer{Interval: 30 * s}, 0, progress.Policy{Timeout: new(10 * s)}, replying(in(9), nil, in(9), nil), seconds(0, 9, 39, 48, 78)},
		{"ignored errors are successes", daemons.Timer{Interval: 30 * s}, 0, progress.Policy{Errors: progress.ErrorsIgnored}, replying(errBoom), seconds(0, 30, 60, 90)},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, daemons.Options{}, func(s *scene) {
				s.ensure(daemons.Task{Timer: &test.timer, InitialDelay: test.initial, Policy: test.policy, Run: s.noting(test.do)})
				pass(100 * time.Second)
				s.same("invocations", s.times(), test.want)
			})
		})
	}
}

// TIM-11: a success ends the chain of attempts.
func TestTimerAttempts(t *testing.T) {
	play(t, daemons.Options{}, func(s *scene) {
		s.ensure(daemons.Task{
			Timer:  &daemons.Timer{Interval: 30 * time.Second},
			Policy: progress.Policy{Backoff: new(time.Second)},
			Run:    s.noting(replying(errBoom, errBoom, nil, errBoom)),
		})
		pass(40 * time.Second)
		s.same("TIM-11 TIM-12 attempts", s.seen(), []call{
			{0, 0}, {time.Second, 1}, {2 * time.Second, 2}, {32 * time.Second, 0}, {33 * time.Second, 1}})
	})
}

// TIM-05 to TIM-09: timers wait until nobody has touched the object for a while.
func TestIdle(t *testing.T) {
	const s = time.Second
	late := progress.Temporary(errBoom, 5*s)
	for _, test := range []struct {
		name    string
		timer   daemons.Timer
		initial time.Duration
		do      func(context.Context, int) error
		touches []time.Duration
		want    []time.Duration // in the first hundred seconds
	}{
		{"TIM-05 TIM-08 idle, then every interval", daemons.Timer{Idle: 20 * s, Interval: 30 * s}, 0, nil, nil, seconds(20, 50, 80)},
		{"TIM-05 with the initial delay, not after it", daemons.Timer{Idle: 20 * s, Interval: 30 * s}, 15 * s, nil, nil, seconds(20, 50, 80)},
		{"TIM-05 the wait is only prolonged", daemons.Timer{Idle: 20 * s, Interval: 30 * s}, 25 * s, nil, nil, seconds(25, 55, 85)},
		{"TIM-06 touched while it waits", daemons.Timer{Idle: 20 * s, Interval: 30 * s}, 0, nil, seconds(10, 15), seconds(35, 65, 95)},
		{"TIM-08 touched in the interval, early", daemons.Timer{Idle: 20 * s, Interval: 30 * s}, 0, nil, seconds(25), seconds(20, 50, 80)},
		{"TIM-08 touched in the interval, late", daemons.Timer{Idle: 20 * s, Interval: 30 * s}, 0, nil, seconds(45), seconds(20, 65, 95)},
		{"TIM-09 without an interval: once", daemons.Timer{Idle: 20 * s}, 0, nil, nil, seconds(20)},
		{"TIM-09 once for each change", daemons.Timer{Idle: 20 * s}, 0, nil, seconds(30, 70), seconds(20, 50, 90)},
		{"TIM-09 changes one after the other", daemons.Timer{Idle: 20 * s}, 0, nil, seconds(10, 20, 30, 40, 50), seconds(70)},
		{"TIM-09 a change during the invocation", daemons.Timer{Idle: 20 * s}, 0, lasting(10 * s), seconds(25), seconds(20, 45)},
		{"TIM-12 a retry waits, too", daemons.Timer{Idle: 20 * s}, 0, replying(late), seconds(22), seconds(20, 42)},
		{"TIM-12 a retry waits for no point", daemons.Timer{Idle: 20 * s, Interval: 30 * s, Sharp: true, Anchor: epoch}, 0, replying(late), seconds(32), seconds(30, 52, 60, 90)},
		{"TIM-12 a retry that need not wait", daemons.Timer{Idle: 20 * s}, 0, replying(late), nil, seconds(20, 25)},
		{"B-41 woken by a change", daemons.Timer{Interval: 30 * s}, 0, replying(progress.Permanent(errBoom)), seconds(50), seconds(0, 50, 80)},
		{"B-41 woken and idle", daemons.Timer{Interval: 30 * s, Idle: 10 * s}, 0, replying(progress.Permanent(errBoom)), seconds(50), seconds(10, 60, 90)},
		{"B-41 a change during the invocation that fails", daemons.Timer{Interval: 30 * s}, 0, func(_ context.Context, n int) error {
			if n > 0 {
				return nil
			}
			<-time.After(10 * s)
			return progress.Permanent(errBoom)
		}, seconds(5), seconds(0, 10, 40, 70, 100)},
		{"B-41 anchored: woken for the next point", daemons.Timer{Interval: 30 * s, Sharp: true, Anchor: epoch}, 0, replying(progress.Permanent(errBoom)), seconds(50), seconds(0, 60, 90)},
		{"TIM-04 sharp: anchored anew after the idle wait", daemons.Timer{Idle: 20 * s, Interval: 30 * s, Sharp: true}, 0, lasting(s), seconds(45), seconds(20, 65, 95)},
		{"anchored: points that come too early are left out", daemons.Timer{Idle: 20 * s, Interval: 30 * s, Sharp: true, Anchor: epoch}, 0, nil, seconds(45), seconds(30, 90)},
		{"a schedule: points that come too early are left out", daemons.Timer{Idle: 20 * s, Schedule: minutely}, 0, nil, seconds(50), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, daemons.Options{}, func(s *scene) {
				s.ensure(daemons.Task{Timer: &test.timer, InitialDelay: test.initial, Run: s.noting(test.do)})
				for _, at := range test.touches {
					pass(time.Until(s.began.Add(at)))
					s.Touch(key.UID)
				}
				pass(time.Until(s.began.Add(100 * time.Second)))
				s.same("invocations", s.times(), test.want)
				s.same("never at an end", s.Ended(key), false)
			})
		})
	}
}

// SE-11: only who touches the object resets the idle time.
func TestTouchIsForTimersOfTheObject(t *testing.T) {
	play(t, daemons.Options{}, func(s *scene) {
		s.Touch("nobody")
		s.ensure(daemons.Task{Timer: &daemons.Timer{Idle: 20 * time.Second}, Run: s.noting(nil)})
		pass(10 * time.Second)
		s.Touch("uid-2")
		s.ensure(daemons.Task{Run: s.noting(nil)})
		pass(10 * time.Second)
		s.same("SE-11 invocations", s.times(), seconds(20))
	})
}

// B-41: a daemon that has failed is not woken.
func TestTouchDoesNotWakeDaemons(t *testing.T) {
	play(t, daemons.Options{}, func(s *scene) {
		s.ensure(daemons.Task{Run: s.noting(replying(progress.Permanent(errBoom)))})
		s.Touch(key.UID)
		pass(time.Hour)
		s.same("DAE-14 runs", len(s.seen()), 1)
	})
}

// A schedule that returns an unusable time is logged once for each handler, with the time, and asked again; the timer is not called until
// the schedule returns a later time.
func TestTimer_AsksAWrongScheduleAgain(t *testing.T) {
	wrong := func(after time.Time) time.Time { return after.Add(-time.Hour) }
	for name, test := range map[string]struct {
		next  scheduleFunc
		calls []time.Duration
		text  string
	}{
		"a time in the past": {wrong, nil, "schedule returned 1999-12-31T22:59:59.999999999Z as the next time after 1999-12-31T23:59:59.999999999Z: return a later time"},
		"the same time":      {func(time.Time) time.Time { return epoch.Add(-time.Second) }, nil, "schedule returned 1999-12-31T23:59:59Z"},
		"a panic":            {func(time.Time) time.Time { panic("oh no") }, nil, "panic: oh no"},
		"a right time, later": {func(after time.Time) time.Time {
			if after.Before(epoch.Add(10*time.Minute + 30*time.Second)) {
				return wrong(after)
			}
			return after.Truncate(time.Hour).Add(time.Hour)
		}, seconds(3600, 7200), "schedule returned"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, daemons.Options{}, func(s *scene) {
				asked := 0
				schedule := scheduleFunc(func(after time.Time) time.Time {
					asked++
					return test.next(after)
				})
				s.ensure(daemons.Task{Timer: &daemons.Timer{Schedule: schedule}, Run: s.noting(nil)})
				other := daemons.Key{UID: "another object", ID: key.ID}
				if err := s.Ensure(other, daemons.Task{Timer: &daemons.Timer{Schedule: schedule}, Run: func(context.Context, progress.Attempt) error { return nil }}); err != nil {
					t.Fatal(err)
				}
				pass(150 * time.Minute)
				s.Touch(key.UID)
				s.same("invocations", s.times(), test.calls)
				if asked > 400 {
					t.Errorf("the schedule was asked %d times", asked)
				}
				logged := s.find("Timer schedule returned an invalid time")
				if len(logged) != 1 || !strings.Contains(logged[0], test.text) {
					t.Errorf("want one line with %q, got %q", test.text, logged)
				}
				s.Stop(other, daemons.ErrDeleted)
			})
		})
	}
}

// A schedule whose times are nearly the same does not keep the processor busy.
func TestTimer_CallsAreApart(t *testing.T) {
	play(t, daemons.Options{}, func(s *scene) {
		asked := 0
		dense := scheduleFunc(func(after time.Time) time.Time {
			if asked++; asked > 5000 {
				return after.Add(time.Hour) // the test has failed: do not let it spin
			}
			return after.Add(1)
		})
		s.ensure(daemons.Task{Timer: &daemons.Timer{Schedule: dense}, Run: s.noting(nil)})
		pass(time.Second)
		if n := len(s.seen()); n < 900 || n > 1001 {
			t.Errorf("%d invocations in a second, want one in each millisecond", n)
		}
	})
}

// Timers with schedules that have no usable time are not called, and those whose schedules end have ended.
func TestSchedules(t *testing.T) {
	for _, test := range []struct {
		name  string
		next  scheduleFunc
		calls int
		ended bool
	}{
		{"none any more", func(after time.Time) time.Time {
			if after.Before(epoch.Add(time.Minute)) {
				return minutely(after)
			}
			return time.Time{}
		}, 2, true},
		{"none at all", func(time.Time) time.Time { return time.Time{} }, 0, true},
		{"one that stands still", func(after time.Time) time.Time { return after }, 0, false},
		{"one that goes back", func(after time.Time) time.Time { return after.Add(-time.Hour) }, 0, false},
		{"one that panics", func(time.Time) time.Time { panic("oh no") }, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, daemons.Options{}, func(s *scene) {
				s.ensure(daemons.Task{Timer: &daemons.Timer{Schedule: test.next}, Run: s.noting(nil)})
				pass(time.Hour)
				s.Touch(key.UID)
				pass(time.Hour)
				s.same("invocations", len(s.seen()), test.calls)
				s.same("ended", s.Ended(key), test.ended)
				s.same("the owner is told", s.ended() == 1, test.ended)
				s.same("the end is logged", len(s.find("its schedule has no further time")) == 1, test.ended)
			})
		})
	}
}

// TIM-16: a timer does not overlap with itself, and does not with its successor.
func TestTimerDoesNotOverlap(t *testing.T) {
	play(t, daemons.Options{}, func(s *scene) {
		running := 0
		task := daemons.Task{Timer: &daemons.Timer{Interval: time.Second, Sharp: true}, Run: s.noting(func(context.Context, int) error {
			running++
			defer func() { running-- }()
			if running > 1 {
				s.Error("TIM-16 DAE-02 two at a time")
			}
			<-time.After(1500 * time.Millisecond)
			return nil
		})}
		for range 20 {
			s.ensure(task)
			pass(700 * time.Millisecond)
			s.Touch(key.UID)
			s.Stop(key, daemons.ErrFilteredOut)
		}
		pass(time.Minute)
		if n := len(s.seen()); n < 5 {
			s.Errorf("only %d invocations", n)
		}
	})
}

// Years of timers: none is lost, and none is late.
func TestYears(t *testing.T) {
	const day = 24 * time.Hour
	play(t, daemons.Options{}, func(s *scene) {
		s.ensure(daemons.Task{Timer: &daemons.Timer{Interval: day, Sharp: true, Anchor: epoch.Add(-7 * time.Hour)}, Run: s.noting(lasting(time.Hour))})
		pass(20 * 365 * day)
		times := s.times()
		s.same("invocations", len(times), 20*365)
		for i, at := range times {
			if want := 17*time.Hour + time.Duration(i)*day; at != want {
				s.Fatalf("TIM-04 invocation %d at %s, want %s", i, at, want)
			}
		}
	})
}

// Twenty restarts: sharp timers keep their phase, and no point is lost or used twice.
func TestRestartsKeepThePhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var points []time.Duration
		for i := range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			s := daemons.New(daemons.Options{})
			done := make(chan error)
			go func() { done <- s.Start(ctx) }()
			err := s.Ensure(key, daemons.Task{
				Timer: &daemons.Timer{Interval: time.Minute, Sharp: true, Anchor: epoch.Add(-13 * time.Second)},
				Run: func(context.Context, attempt) error {
					points = append(points, time.Since(epoch))
					return nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			pass(time.Duration(17*(i+1))*time.Second + time.Millisecond)
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if want := 17 * 210 / 60; len(points) < want-1 || len(points) > want+1 {
			t.Errorf("%d invocations, want about %d", len(points), want)
		}
		for i, at := range points {
			if want := 47*time.Second + time.Duration(i)*time.Minute; at != want {
				t.Fatalf("invocation %d at %s, want %s", i, at, want)
			}
		}
	})
}

// B-43: jitter spreads invocations, and moves no point of the grid.
func TestJitter(t *testing.T) {
	for _, test := range []struct {
		name  string
		timer daemons.Timer
		least func(i int, times []time.Duration) time.Duration
	}{
		{"sharp", daemons.Timer{Interval: time.Minute, Sharp: true, Jitter: 0.5},
			func(i int, times []time.Duration) time.Duration {
				return times[0].Truncate(time.Minute) + time.Duration(i)*time.Minute
			}},
		{"a schedule", daemons.Timer{Schedule: minutely, Jitter: 0.5},
			func(i int, _ []time.Duration) time.Duration { return time.Duration(i) * time.Minute }},
		{"an interval", daemons.Timer{Interval: time.Minute, Jitter: 0.5},
			func(i int, times []time.Duration) time.Duration {
				if i == 0 {
					return 0
				}
				return times[i-1] + time.Minute
			}},
	} {
		t.Run("B-43 "+test.name, func(t *testing.T) {
			play(t, daemons.Options{}, func(s *scene) {
				s.ensure(daemons.Task{Timer: &test.timer, Run: s.noting(nil)})
				pass(10 * time.Hour)
				times := s.times()
				if len(times) < 300 {
					s.Fatalf("only %d invocations", len(times))
				}
				var most time.Duration
				for i, at := range times {
					off := at - test.least(i, times)
					if off < 0 || off >= 30*time.Second {
						s.Fatalf("invocation %d is %s off", i, off)
					}
					most = max(most, off)
				}
				if most < 20*time.Second {
					s.Errorf("they are %s off at most: not spread", most)
				}
			})
		})
	}
}

// The wall clock can be behind the one that wakes us: no point is used twice.
func TestNoPointTwice(t *testing.T) {
	point := epoch.Add(time.Hour)
	for name, timer := range map[string]daemons.Timer{
		"anchored":   {Interval: time.Hour, Sharp: true, Anchor: epoch},
		"a schedule": {Schedule: scheduleFunc(func(after time.Time) time.Time { return after.Truncate(time.Hour).Add(time.Hour) })},
	} {
		for _, end := range []time.Time{point.Add(-time.Millisecond), point, point.Add(time.Minute)} {
			if got := daemons.NextPoint(timer, point, end); !got.Equal(point.Add(time.Hour)) {
				t.Errorf("%s: after the point %s, ended at %s, comes %s", name, point, end, got)
			}
		}
	}
}
