package daemons_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// DAE-06 DAE-40: nothing runs while paused; afterwards all starts again by itself.
func TestPause(t *testing.T) {
	play(t, daemons.Options{}, func(s *scene) {
		task := daemons.Task{InitialDelay: time.Second, Run: s.noting(untilStopped)}
		s.ensure(task)
		pass(10 * time.Second)
		s.Pause()
		s.Pause()
		pass(10 * time.Second)
		s.same("DAE-40 busy", s.Busy(key.UID), false)
		s.ensure(task)
		pass(10 * time.Second)
		s.same("DAE-06 runs", s.times(), seconds(1))
		s.Resume()
		s.Resume()
		pass(10 * time.Second)
		s.same("TIM-19 runs, after the initial delay", s.times(), seconds(1, 31))
	})
}

// DAE-06: what is asked for during the pause is started after it, with its last task.
func TestEnsureWhilePaused(t *testing.T) {
	play(t, daemons.Options{}, func(s *scene) {
		s.Pause()
		stopped := daemons.Key{UID: "uid-2", ID: key.ID}
		for _, k := range []daemons.Key{key, stopped} {
			if err := s.Ensure(k, daemons.Task{Run: func(context.Context, attempt) error { panic("not this one") }}); err != nil {
				s.Fatal(err)
			}
		}
		s.ensure(daemons.Task{Run: s.noting(nil)})
		s.Stop(stopped, daemons.ErrFilteredOut)
		pass(time.Hour)
		s.Resume()
		synctest.Wait()
		s.same("runs", s.times(), seconds(3600))
	})
}

// B-40: what has not ended when the pause is over is started again when it has.
func TestResumeWhileStopping(t *testing.T) {
	play(t, daemons.Options{}, func(s *scene) {
		s.ensure(daemons.Task{Run: s.noting(func(ctx context.Context, _ int) error {
			<-ctx.Done()
			<-time.After(10 * time.Second)
			return nil
		})})
		s.Pause()
		pass(time.Second)
		s.Resume()
		pass(time.Second)
		s.Pause()
		pass(time.Second)
		s.Resume()
		pass(time.Hour)
		s.same("B-40 runs", s.times(), seconds(0, 10))
	})
}

// What was stopped for good during the pause is not started after it.
func TestStopWhilePaused(t *testing.T) {
	play(t, daemons.Options{}, func(s *scene) {
		s.ensure(daemons.Task{Run: s.noting(func(ctx context.Context, _ int) error {
			<-ctx.Done()
			<-time.After(10 * time.Second)
			return nil
		})})
		s.Pause()
		s.StopAll(key.UID, daemons.ErrDeleted)
		pass(time.Minute)
		s.Resume()
		pass(time.Minute)
		s.same("runs", s.times(), seconds(0))
		s.same("left", daemons.Jobs(s.Supervisor), 0)
	})
}

// TIM-19 B-41: timers and the pause.
func TestPauseOfTimers(t *testing.T) {
	for _, test := range []struct {
		name  string
		timer daemons.Timer
		do    func(context.Context, int) error
		touch bool // during the pause
		want  []time.Duration
	}{
		{"TIM-19 starts anew", daemons.Timer{Interval: 40 * time.Second}, nil, false, seconds(0, 40, 130, 170)},
		{"sharp: the points stay", daemons.Timer{Interval: 40 * time.Second, Sharp: true, Anchor: epoch}, nil, false, seconds(0, 40, 160, 200)},
		{"what was due before the start is due once", daemons.Timer{Interval: 100 * time.Second, Sharp: true,
			Anchor: epoch.Add(-10 * time.Second), Last: epoch.Add(-20 * time.Second)}, nil, false, seconds(0, 190)},
		{"TIM-09 one that waits for a change goes on", daemons.Timer{Idle: 10 * time.Second}, nil, false, seconds(10)},
		{"TIM-09 and notices one", daemons.Timer{Idle: 10 * time.Second}, nil, true, seconds(10, 130)},
		{"B-41 so does one that has failed", daemons.Timer{Interval: 10 * time.Second}, failing, false, seconds(0)},
		{"B-41 and notices it, too", daemons.Timer{Interval: 50 * time.Second}, failing, true, seconds(0, 130)},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, daemons.Options{}, func(s *scene) {
				s.ensure(daemons.Task{Timer: &test.timer, Run: s.noting(test.do)})
				pass(50 * time.Second)
				s.Pause()
				pass(50 * time.Second)
				if test.touch {
					s.Touch(key.UID)
				}
				pass(30 * time.Second)
				s.Resume()
				pass(70 * time.Second)
				s.same("invocations", s.times(), test.want)
			})
		})
	}
}

func failing(context.Context, int) error { return progress.Permanent(errBoom) }
