package daemons_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// DAE-06 DAE-40
func TestPause_StopsAndResumes(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		task := daemons.Task{InitialDelay: time.Second, Run: s.recordCalls(waitForStop)}
		s.mustEnsure(task)
		advance(10 * time.Second)
		s.Pause()
		s.Pause()
		advance(10 * time.Second)
		s.equal("DAE-40 busy", s.Busy(key.UID), false)
		s.mustEnsure(task)
		advance(10 * time.Second)
		s.equal("DAE-06 runs", s.callTimes(), seconds(1))
		s.Resume()
		s.Resume()
		advance(10 * time.Second)
		s.equal("TIM-19 times of runs", s.callTimes(), seconds(1, 31))
	})
}

// DAE-06: if a task is added during a pause, it starts after the pause.
func TestEnsure_WhilePaused(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		s.Pause()
		stopped := daemons.Key{UID: "uid-2", ID: key.ID}
		for _, k := range []daemons.Key{key, stopped} {
			if err := s.Ensure(k, daemons.Task{Run: func(context.Context, attempt) error { panic("unexpected run") }}); err != nil {
				s.Fatal(err)
			}
		}
		s.mustEnsure(daemons.Task{Run: s.recordCalls(nil)})
		s.Stop(stopped, daemons.ErrFilteredOut)
		advance(time.Hour)
		s.Resume()
		synctest.Wait()
		s.equal("runs", s.callTimes(), seconds(3600))
	})
}

// B-40: if a run is still stopping at the end of a pause, it restarts when it has ended.
func TestResume_WhileStopping(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		s.mustEnsure(daemons.Task{Run: s.recordCalls(func(ctx context.Context, _ int) error {
			<-ctx.Done()
			<-time.After(10 * time.Second)
			return nil
		})})
		s.Pause()
		advance(time.Second)
		s.Resume()
		advance(time.Second)
		s.Pause()
		advance(time.Second)
		s.Resume()
		advance(time.Hour)
		s.equal("B-40 runs", s.callTimes(), seconds(0, 10))
	})
}

// A task that is stopped during a pause does not start after the pause.
func TestStop_WhilePaused(t *testing.T) {
	runTest(t, daemons.Options{}, func(s *supervisorTest) {
		s.mustEnsure(daemons.Task{Run: s.recordCalls(func(ctx context.Context, _ int) error {
			<-ctx.Done()
			<-time.After(10 * time.Second)
			return nil
		})})
		s.Pause()
		s.StopAll(key.UID, daemons.ErrDeleted)
		advance(time.Minute)
		s.Resume()
		advance(time.Minute)
		s.equal("runs", s.callTimes(), seconds(0))
		s.equal("number of jobs", daemons.Jobs(s.Supervisor), 0)
	})
}

// TIM-19 B-41
func TestPause_Timers(t *testing.T) {
	for _, test := range []struct {
		name  string
		timer daemons.Timer
		do    func(context.Context, int) error
		touch bool // whether the object is touched during the pause
		want  []time.Duration
	}{
		{"TIM-19 a plain timer starts again", daemons.Timer{Interval: 40 * time.Second}, nil, false, seconds(0, 40, 130, 170)},
		{"a sharp timer keeps its points", daemons.Timer{Interval: 40 * time.Second, Sharp: true, Anchor: epoch}, nil, false, seconds(0, 40, 160, 200)},
		{"a missed point is due once", daemons.Timer{Interval: 100 * time.Second, Sharp: true,
			Anchor: epoch.Add(-10 * time.Second), Last: epoch.Add(-20 * time.Second)}, nil, false, seconds(0, 190)},
		{"TIM-09 a timer that waits for a change keeps waiting", daemons.Timer{Idle: 10 * time.Second}, nil, false, seconds(10)},
		{"TIM-09 a timer that waits for a change runs after the pause", daemons.Timer{Idle: 10 * time.Second}, nil, true, seconds(10, 130)},
		{"B-41 a failed timer keeps waiting", daemons.Timer{Interval: 10 * time.Second}, failPermanently, false, seconds(0)},
		{"B-41 a failed timer runs after a change", daemons.Timer{Interval: 50 * time.Second}, failPermanently, true, seconds(0, 130)},
	} {
		t.Run(test.name, func(t *testing.T) {
			runTest(t, daemons.Options{}, func(s *supervisorTest) {
				s.mustEnsure(daemons.Task{Timer: &test.timer, Run: s.recordCalls(test.do)})
				advance(50 * time.Second)
				s.Pause()
				advance(50 * time.Second)
				if test.touch {
					s.Touch(key.UID)
				}
				advance(30 * time.Second)
				s.Resume()
				advance(70 * time.Second)
				s.equal("invocations", s.callTimes(), test.want)
			})
		})
	}
}

func failPermanently(context.Context, int) error { return progress.Permanent(errBoom) }
