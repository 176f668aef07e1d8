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

// scheduleFunc implements daemons.Schedule.
type scheduleFunc func(time.Time) time.Time

func (f scheduleFunc) Next(after time.Time) time.Time { return f(after) }

// minutely is a schedule of full minutes.
var minutely = scheduleFunc(func(after time.Time) time.Time { return after.Truncate(time.Minute).Add(time.Minute) })

// sleepFor returns a function that runs for a duration.
func sleepFor(d time.Duration) func(context.Context, int) error {
	return func(context.Context, int) error {
		<-time.After(d)
		return nil
	}
}

// returnError returns a function that returns the given errors one by one, and then nil.
func returnError(errs ...error) func(context.Context, int) error {
	return func(_ context.Context, n int) error {
		if n < len(errs) {
			return errs[n]
		}
		return nil
	}
}

// TIM-02 to TIM-04, TIM-11 to TIM-17: the test compares the invocations in the first hundred seconds.
func TestTimer_Runs(t *testing.T) {
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
		{"TIM-03 an interval after a slow invocation", daemons.Timer{Interval: 30 * s}, 0, progress.Policy{}, sleepFor(10 * s), seconds(0, 40, 80)},
		{"TIM-02 TIM-19 an initial delay", daemons.Timer{Interval: 30 * s}, 20 * s, progress.Policy{}, nil, seconds(20, 50, 80)},
		{"TIM-04 sharp", daemons.Timer{Interval: 30 * s, Sharp: true}, 0, progress.Policy{}, sleepFor(10 * s), seconds(0, 30, 60, 90)},
		{"TIM-04 sharp and slow timers skip points", daemons.Timer{Interval: 30 * s, Sharp: true}, 0, progress.Policy{}, sleepFor(40 * s), seconds(0, 60)},
		{"TIM-04 sharp and as slow as the interval", daemons.Timer{Interval: 30 * s, Sharp: true}, 0, progress.Policy{}, sleepFor(30 * s), seconds(0, 60)},
		{"TIM-04 sharp after an initial delay", daemons.Timer{Interval: 30 * s, Sharp: true}, 7 * s, progress.Policy{}, nil, seconds(7, 37, 67, 97)},
		{"TIM-04 anchored in the past", daemons.Timer{Interval: 30 * s, Sharp: true, Anchor: epoch.Add(-50 * s)}, 0, progress.Policy{}, nil, seconds(10, 40, 70, 100)},
		{"TIM-04 anchored now", daemons.Timer{Interval: 30 * s, Sharp: true, Anchor: epoch}, 0, progress.Policy{}, nil, seconds(0, 30, 60, 90)},
		{"TIM-04 anchored in the future", daemons.Timer{Interval: 30 * s, Sharp: true, Anchor: epoch.Add(100 * s)}, 0, progress.Policy{}, nil, seconds(10, 40, 70, 100)},
		{"TIM-04 anchored very long ago", daemons.Timer{Interval: 30 * s, Sharp: true, Anchor: time.Time{}.Add(s)}, 20 * s, progress.Policy{}, nil, seconds(31, 61, 91)},
		{"TIM-04 anchored, initial delay", daemons.Timer{Interval: 30 * s, Sharp: true, Anchor: epoch.Add(-50 * s)}, 20 * s, progress.Policy{}, nil, seconds(40, 70, 100)},
		{"a schedule", daemons.Timer{Schedule: minutely}, 0, progress.Policy{}, sleepFor(5 * s), seconds(0, 60)},
		{"a schedule, initial delay", daemons.Timer{Schedule: minutely}, s, progress.Policy{}, nil, seconds(60)},
		{"a schedule with slow invocations", daemons.Timer{Schedule: minutely}, 0, progress.Policy{}, sleepFor(70 * s), seconds(0)},
		{"Last is set, due", daemons.Timer{Interval: 30 * s, Last: epoch.Add(-100 * s)}, 0, progress.Policy{}, nil, seconds(0, 30, 60, 90)},
		{"Last is set, not due", daemons.Timer{Interval: 30 * s, Last: epoch.Add(-20 * s)}, 0, progress.Policy{}, nil, seconds(10, 40, 70, 100)},
		{"Last is in the future", daemons.Timer{Interval: 30 * s, Last: epoch.Add(20 * s)}, 0, progress.Policy{}, nil, seconds(0, 30, 60, 90)},
		{"Last is set, sharp, due", daemons.Timer{Interval: 30 * s, Sharp: true, Last: epoch.Add(-100 * s)}, 0, progress.Policy{}, nil, seconds(0, 20, 50, 80)},
		{"Last is set, anchored, due once", daemons.Timer{Interval: 30 * s, Sharp: true, Anchor: epoch.Add(-10 * s), Last: epoch.Add(-11 * s)}, 0, progress.Policy{}, nil, seconds(0, 20, 50, 80)},
		{"Last is set, a schedule, due", daemons.Timer{Schedule: minutely, Last: epoch.Add(-s)}, 5 * s, progress.Policy{}, nil, seconds(5, 60)},

		{"TIM-12 a temporary error replaces the interval", daemons.Timer{Interval: 30 * s}, 0, progress.Policy{}, returnError(in(5), in(15)), seconds(0, 5, 20, 50, 80)},
		{"TIM-12 another error is retried after the backoff", daemons.Timer{Interval: 10 * s}, 0, progress.Policy{Backoff: new(35 * s)}, returnError(errBoom), seconds(0, 35, 45, 55, 65, 75, 85, 95)},
		{"TIM-12 a retried sharp timer keeps its points", daemons.Timer{Interval: 30 * s, Sharp: true}, 0, progress.Policy{}, returnError(in(5), in(35)), seconds(0, 5, 40, 60, 90)},
		{"TIM-17 a delay of zero retries immediately", daemons.Timer{Interval: 40 * s}, 0, progress.Policy{}, returnError(in(0), in(0)), seconds(0, 0, 0, 40, 80)},
		{"B-41 TIM-13 a permanent error stops the timer", daemons.Timer{Interval: 30 * s}, 0, progress.Policy{}, returnError(nil, progress.Permanent(errBoom)), seconds(0, 30)},
		{"B-41 TIM-13 mode ErrorsPermanent stops the timer", daemons.Timer{Interval: 30 * s}, 0, progress.Policy{Errors: progress.ErrorsPermanent}, returnError(errBoom), seconds(0)},
		{"B-41 TIM-13 TIM-14 exceeded retries stop the timer", daemons.Timer{Interval: 30 * s}, 0, progress.Policy{Retries: new(2)}, returnError(nil, nil, in(1), in(1)), seconds(0, 30, 60, 61)},
		{"TIM-14 a success resets the retries", daemons.Timer{Interval: 30 * s}, 0, progress.Policy{Retries: new(2)}, returnError(in(1), nil, in(1), nil), seconds(0, 1, 31, 32, 62, 92)},
		{"TIM-14 a success resets the timeout", daemons.Timer{Interval: 30 * s}, 0, progress.Policy{Timeout: new(10 * s)}, returnError(in(9), nil, in(9), nil), seconds(0, 9, 39, 48, 78)},
		{"ignored errors are successes", daemons.Timer{Interval: 30 * s}, 0, progress.Policy{Errors: progress.ErrorsIgnored}, returnError(errBoom), seconds(0, 30, 60, 90)},
	} {
		t.Run(test.name, func(t *testing.T) {
			runTest(t, daemons.Options{}, func(s *supervisorTest) {
				s.mustEnsure(daemons.Task{Timer: &test.timer, InitialDelay: test.initial, Policy: test.policy, Run: s.recordCalls(test.do)})
				advance(100 * time.Second)
				s.equal("invocations", s.callTimes(), test.want)
			})
		})
	}
}

// TIM-11: a success resets the attempt number.
func TestTimer_Attempts(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		s.mustEnsure(daemons.Task{
			Timer:  &daemons.Timer{Interval: 30 * time.Second},
			Policy: progress.Policy{Backoff: new(time.Second)},
			Run:    s.recordCalls(returnError(errBoom, errBoom, nil, errBoom)),
		})
		advance(40 * time.Second)
		s.equal("TIM-11 TIM-12 attempts", s.recordedCalls(), []call{
			{0, 0}, {time.Second, 1}, {2 * time.Second, 2}, {32 * time.Second, 0}, {33 * time.Second, 1}})
	})
}

// TIM-05 to TIM-09: timers wait until the object is idle.
func TestIdle(t *testing.T) {
	const s = time.Second
	late := progress.Temporary(errBoom, 5*s)
	for _, test := range []struct {
		name    string
		timer   daemons.Timer
		initial time.Duration
		do      func(context.Context, int) error
		touches []time.Duration
		want    []time.Duration // times of runs in the first hundred seconds
	}{
		{"TIM-05 TIM-08 idle time, then intervals", daemons.Timer{Idle: 20 * s, Interval: 30 * s}, 0, nil, nil, seconds(20, 50, 80)},
		{"TIM-05 idle time and a shorter initial delay", daemons.Timer{Idle: 20 * s, Interval: 30 * s}, 15 * s, nil, nil, seconds(20, 50, 80)},
		{"TIM-05 idle time and a longer initial delay", daemons.Timer{Idle: 20 * s, Interval: 30 * s}, 25 * s, nil, nil, seconds(25, 55, 85)},
		{"TIM-06 a touch during the idle time", daemons.Timer{Idle: 20 * s, Interval: 30 * s}, 0, nil, seconds(10, 15), seconds(35, 65, 95)},
		{"TIM-08 an early touch in the interval", daemons.Timer{Idle: 20 * s, Interval: 30 * s}, 0, nil, seconds(25), seconds(20, 50, 80)},
		{"TIM-08 a late touch in the interval", daemons.Timer{Idle: 20 * s, Interval: 30 * s}, 0, nil, seconds(45), seconds(20, 65, 95)},
		{"TIM-09 one invocation without an interval", daemons.Timer{Idle: 20 * s}, 0, nil, nil, seconds(20)},
		{"TIM-09 one invocation for each change", daemons.Timer{Idle: 20 * s}, 0, nil, seconds(30, 70), seconds(20, 50, 90)},
		{"TIM-09 one invocation after quick changes", daemons.Timer{Idle: 20 * s}, 0, nil, seconds(10, 20, 30, 40, 50), seconds(70)},
		{"TIM-09 a change during the invocation", daemons.Timer{Idle: 20 * s}, 0, sleepFor(10 * s), seconds(25), seconds(20, 45)},
		{"TIM-12 a retry waits for the idle time", daemons.Timer{Idle: 20 * s}, 0, returnError(late), seconds(22), seconds(20, 42)},
		{"TIM-12 a retry does not wait for the next point", daemons.Timer{Idle: 20 * s, Interval: 30 * s, Sharp: true, Anchor: epoch}, 0, returnError(late), seconds(32), seconds(30, 52, 60, 90)},
		{"TIM-12 a retry without a change", daemons.Timer{Idle: 20 * s}, 0, returnError(late), nil, seconds(20, 25)},
		{"B-41 a change restarts a failed timer", daemons.Timer{Interval: 30 * s}, 0, returnError(progress.Permanent(errBoom)), seconds(50), seconds(0, 50, 80)},
		{"B-41 a restarted timer waits for the idle time", daemons.Timer{Interval: 30 * s, Idle: 10 * s}, 0, returnError(progress.Permanent(errBoom)), seconds(50), seconds(10, 60, 90)},
		{"B-41 a change during a failing invocation", daemons.Timer{Interval: 30 * s}, 0, func(_ context.Context, n int) error {
			if n > 0 {
				return nil
			}
			<-time.After(10 * s)
			return progress.Permanent(errBoom)
		}, seconds(5), seconds(0, 10, 40, 70, 100)},
		{"B-41 a restarted timer waits for the next point", daemons.Timer{Interval: 30 * s, Sharp: true, Anchor: epoch}, 0, returnError(progress.Permanent(errBoom)), seconds(50), seconds(0, 60, 90)},
		{"TIM-04 a sharp timer gets a new anchor after the idle time", daemons.Timer{Idle: 20 * s, Interval: 30 * s, Sharp: true}, 0, sleepFor(s), seconds(45), seconds(20, 65, 95)},
		{"an anchored timer skips points in the idle time", daemons.Timer{Idle: 20 * s, Interval: 30 * s, Sharp: true, Anchor: epoch}, 0, nil, seconds(45), seconds(30, 90)},
		{"a schedule skips points in the idle time", daemons.Timer{Idle: 20 * s, Schedule: minutely}, 0, nil, seconds(50), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			runTest(t, daemons.Options{}, func(s *supervisorTest) {
				s.mustEnsure(daemons.Task{Timer: &test.timer, InitialDelay: test.initial, Run: s.recordCalls(test.do)})
				for _, at := range test.touches {
					advance(time.Until(s.start.Add(at)))
					s.Touch(key.UID)
				}
				advance(time.Until(s.start.Add(100 * time.Second)))
				s.equal("invocations", s.callTimes(), test.want)
				s.equal("ended", s.Ended(key), false)
			})
		})
	}
}

// SE-11
func TestTouch_AffectsOnlyItsObject(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		s.Touch("unknown")
		s.mustEnsure(daemons.Task{Timer: &daemons.Timer{Idle: 20 * time.Second}, Run: s.recordCalls(nil)})
		advance(10 * time.Second)
		s.Touch("uid-2")
		s.mustEnsure(daemons.Task{Run: s.recordCalls(nil)})
		advance(10 * time.Second)
		s.equal("SE-11 invocations", s.callTimes(), seconds(20))
	})
}

// B-41
func TestTouch_DoesNotRestartDaemons(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		s.mustEnsure(daemons.Task{Run: s.recordCalls(returnError(progress.Permanent(errBoom)))})
		s.Touch(key.UID)
		advance(time.Hour)
		s.equal("DAE-14 runs", len(s.recordedCalls()), 1)
	})
}

// The supervisor logs an invalid time of a schedule once per handler. It invokes the timer when the schedule returns a
// later time.
func TestTimer_RetriesInvalidSchedule(t *testing.T) {
	wrong := func(after time.Time) time.Time { return after.Add(-time.Hour) }
	for name, test := range map[string]struct {
		next  scheduleFunc
		calls []time.Duration
		text  string
	}{
		"a time in the past": {wrong, nil, "schedule returned 1999-12-31T22:59:59.999999999Z as the next time after 1999-12-31T23:59:59.999999999Z: return a later time"},
		"the same time":      {func(time.Time) time.Time { return epoch.Add(-time.Second) }, nil, "schedule returned 1999-12-31T23:59:59Z"},
		"a panic":            {func(time.Time) time.Time { panic("boom") }, nil, "Schedule panicked: boom"},
		"a valid time after an invalid time": {func(after time.Time) time.Time {
			if after.Before(epoch.Add(10*time.Minute + 30*time.Second)) {
				return wrong(after)
			}
			return after.Truncate(time.Hour).Add(time.Hour)
		}, seconds(3600, 7200), "schedule returned"},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, daemons.Options{}, func(s *supervisorTest) {
				asked := 0
				schedule := scheduleFunc(func(after time.Time) time.Time {
					asked++
					return test.next(after)
				})
				s.mustEnsure(daemons.Task{Timer: &daemons.Timer{Schedule: schedule}, Run: s.recordCalls(nil)})
				other := daemons.Key{UID: "another object", ID: key.ID}
				if err := s.Ensure(other, daemons.Task{Timer: &daemons.Timer{Schedule: schedule}, Run: func(context.Context, progress.Attempt) error { return nil }}); err != nil {
					t.Fatal(err)
				}
				advance(150 * time.Minute)
				s.Touch(key.UID)
				s.equal("invocations", s.callTimes(), test.calls)
				if asked > 400 {
					t.Errorf("got %d calls of the schedule, want at most 400", asked)
				}
				logged := s.findLog("Timer schedule returned an invalid time")
				if len(logged) != 1 || !strings.Contains(logged[0], test.text) {
					t.Errorf("want one log line with %q, got %q", test.text, logged)
				}
				s.Stop(other, daemons.ErrDeleted)
			})
		})
	}
}

// A schedule with almost equal times does not cause a busy loop.
func TestTimer_LimitsRateOfSchedule(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		asked := 0
		dense := scheduleFunc(func(after time.Time) time.Time {
			if asked++; asked > 5000 {
				return after.Add(time.Hour) // prevents an endless loop in a failing test
			}
			return after.Add(1)
		})
		s.mustEnsure(daemons.Task{Timer: &daemons.Timer{Schedule: dense}, Run: s.recordCalls(nil)})
		advance(time.Second)
		if n := len(s.recordedCalls()); n < 900 || n > 1001 {
			t.Errorf("got %d invocations in one second, want about 1000", n)
		}
	})
}

// A timer ends with its schedule. It does not run if the schedule is invalid.
func TestTimer_EndOfSchedule(t *testing.T) {
	for _, test := range []struct {
		name  string
		next  scheduleFunc
		calls int
		ended bool
	}{
		{"no further time", func(after time.Time) time.Time {
			if after.Before(epoch.Add(time.Minute)) {
				return minutely(after)
			}
			return time.Time{}
		}, 2, true},
		{"no time", func(time.Time) time.Time { return time.Time{} }, 0, true},
		{"a constant time", func(after time.Time) time.Time { return after }, 0, false},
		{"an earlier time", func(after time.Time) time.Time { return after.Add(-time.Hour) }, 0, false},
		{"a panic", func(time.Time) time.Time { panic("boom") }, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			runTest(t, daemons.Options{}, func(s *supervisorTest) {
				s.mustEnsure(daemons.Task{Timer: &daemons.Timer{Schedule: test.next}, Run: s.recordCalls(nil)})
				advance(time.Hour)
				s.Touch(key.UID)
				advance(time.Hour)
				s.equal("invocations", len(s.recordedCalls()), test.calls)
				s.equal("ended", s.Ended(key), test.ended)
				s.equal("OnEnd is called", s.takeEnds() == 1, test.ended)
				s.equal("the end of the schedule is logged", len(s.findLog("its schedule has no further time")) == 1, test.ended)
			})
		})
	}
}

// TIM-16: invocations of a timer overlap neither with each other nor with those of its successor.
func TestTimer_DoesNotOverlap(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		running := 0
		task := daemons.Task{Timer: &daemons.Timer{Interval: time.Second, Sharp: true}, Run: s.recordCalls(func(context.Context, int) error {
			running++
			defer func() { running-- }()
			if running > 1 {
				s.Error("TIM-16 DAE-02 got two concurrent invocations")
			}
			<-time.After(1500 * time.Millisecond)
			return nil
		})}
		for range 20 {
			s.mustEnsure(task)
			advance(700 * time.Millisecond)
			s.Touch(key.UID)
			s.Stop(key, daemons.ErrFilteredOut)
		}
		advance(time.Minute)
		if n := len(s.recordedCalls()); n < 5 {
			s.Errorf("got %d invocations, want at least 5", n)
		}
	})
}

// Over twenty years, no invocation is lost or late.
func TestTimer_TwentyYears(t *testing.T) {
	const day = 24 * time.Hour
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		s.mustEnsure(daemons.Task{Timer: &daemons.Timer{Interval: day, Sharp: true, Anchor: epoch.Add(-7 * time.Hour)}, Run: s.recordCalls(sleepFor(time.Hour))})
		advance(20 * 365 * day)
		times := s.callTimes()
		s.equal("invocations", len(times), 20*365)
		for i, at := range times {
			if want := 17*time.Hour + time.Duration(i)*day; at != want {
				s.Fatalf("TIM-04 time of invocation %d = %s, want %s", i, at, want)
			}
		}
	})
}

// Over twenty restarts, sharp timers keep their points and use each point once.
func TestTimer_RestartsKeepPoints(t *testing.T) {
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
			advance(time.Duration(17*(i+1))*time.Second + time.Millisecond)
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if want := 17 * 210 / 60; len(points) < want-1 || len(points) > want+1 {
			t.Errorf("got %d invocations, want about %d", len(points), want)
		}
		for i, at := range points {
			if want := 47*time.Second + time.Duration(i)*time.Minute; at != want {
				t.Fatalf("time of invocation %d = %s, want %s", i, at, want)
			}
		}
	})
}

// B-43: jitter delays invocations and does not move the points.
func TestTimer_Jitter(t *testing.T) {
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
			runTest(t, daemons.Options{}, func(s *supervisorTest) {
				s.mustEnsure(daemons.Task{Timer: &test.timer, Run: s.recordCalls(nil)})
				advance(10 * time.Hour)
				times := s.callTimes()
				if len(times) < 300 {
					s.Fatalf("got %d invocations, want at least 300", len(times))
				}
				var most time.Duration
				for i, at := range times {
					off := at - test.least(i, times)
					if off < 0 || off >= 30*time.Second {
						s.Fatalf("delay of invocation %d = %s, want 0 to 30s", i, off)
					}
					most = max(most, off)
				}
				if most < 20*time.Second {
					s.Errorf("maximum delay = %s, want at least 20s", most)
				}
			})
		})
	}
}

// A timer uses no point twice if the wall clock is behind the monotonic clock.
func TestTimer_UsesNoPointTwice(t *testing.T) {
	point := epoch.Add(time.Hour)
	for name, timer := range map[string]daemons.Timer{
		"anchored":   {Interval: time.Hour, Sharp: true, Anchor: epoch},
		"a schedule": {Schedule: scheduleFunc(func(after time.Time) time.Time { return after.Truncate(time.Hour).Add(time.Hour) })},
	} {
		for _, end := range []time.Time{point.Add(-time.Millisecond), point, point.Add(time.Minute)} {
			if got := daemons.NextPoint(timer, point, end); !got.Equal(point.Add(time.Hour)) {
				t.Errorf("%s: next point after %s, ended at %s = %s, want a later point", name, point, end, got)
			}
		}
	}
}

func TestRunNow(t *testing.T) {
	for name, test := range map[string]struct {
		timer *daemons.Timer
		do    func(context.Context, int) error
		at    []time.Duration // of RunNow
		wrong string          // part of an error
		want  []time.Duration
	}{
		"an interval":             {&daemons.Timer{Interval: time.Minute}, nil, seconds(10, 20), "", seconds(0, 10, 20, 80)},
		"sharp points stay":       {&daemons.Timer{Interval: time.Minute, Sharp: true, Anchor: epoch}, nil, seconds(10), "", seconds(0, 10, 60)},
		"an idle time":            {&daemons.Timer{Interval: time.Minute, Idle: 50 * time.Second}, nil, seconds(10), "", seconds(10, 70)},
		"a timer that is dormant": {&daemons.Timer{Idle: time.Second}, nil, seconds(10), "", seconds(1, 10)},
		"a failed timer":          {&daemons.Timer{Interval: time.Minute}, returnError(progress.Permanent(errBoom)), seconds(10), "", seconds(0, 10, 70)},
		"the delay of a retry":    {&daemons.Timer{Interval: 20 * time.Second}, returnError(progress.Temporary(errBoom, time.Hour)), seconds(10), "", seconds(0, 10, 30, 50, 70)},
		"a running timer":         {&daemons.Timer{Interval: time.Minute}, sleepFor(30 * time.Second), seconds(10), "it is running", seconds(0)},
		"a daemon with a delay":   {nil, returnError(progress.Temporary(errBoom, time.Hour)), seconds(10), "", seconds(0, 10)},
		"a daemon that has ended": {nil, nil, seconds(10), "it has ended", seconds(0)},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, daemons.Options{}, func(s *supervisorTest) {
				s.mustEnsure(daemons.Task{Timer: test.timer, Run: s.recordCalls(test.do)})
				for _, at := range test.at {
					advance(at - time.Since(s.start))
					err := s.RunNow(key)
					if test.wrong == "" && err != nil || test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)) {
						s.Errorf("RunNow returned %v, want %q", err, test.wrong)
					}
				}
				advance(85*time.Second - time.Since(s.start))
				s.equal("invocations", s.callTimes(), test.want)
			})
		})
	}
}
