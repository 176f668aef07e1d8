package daemons

import (
	"context"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// startDue starts a due job, unless its object is no longer idle or its group is full.
func (s *Supervisor) startDue(j *job) {
	now := time.Now()
	idleUntil := j.idleUntil()
	if j.isForced {
		j.retrySchedule, idleUntil = false, time.Time{}
	}
	switch {
	case j.retrySchedule:
		point, err := j.task.Timer.pointNotBefore(now)
		s.schedulePoint(j, point, now, err)
	case idleUntil.After(now) && j.attempts().Retries > 0: // a retry keeps the point of its first attempt
		j.enter(waiting)
		s.scheduleAt(j, idleUntil)
	case idleUntil.After(now):
		point, err := j.task.Timer.pointNotBefore(idleUntil)
		s.schedulePoint(j, point, idleUntil, err)
	case j.group.full():
		j.enter(queued)
		j.group.waiting.push(j, j.due)
	default:
		s.startRun(j, now)
	}
}

func (s *Supervisor) startRun(j *job, now time.Time) {
	if j.isForced = false; j.task.Timer != nil {
		metrics.TimerDrift.WithLabelValues(j.task.Kind, j.task.label(j.key)).Observe(now.Sub(j.due).Seconds())
		j.lastInvocation = time.Time{}
	}
	if j.group != nil {
		j.group.running++
	}
	if j.record == nil {
		j.record = &progress.Record{Started: now}
	}
	ctx, cancel := context.WithCancelCause(s.baseContext)
	j.run = &run{cancel: cancel, touches: j.object.touches}
	s.awaitedRuns++
	j.enter(active)
	go s.invoke(ctx, j, *j.record)
}

// invoke is the goroutine of a run. The task doesn't change during the run.
func (s *Supervisor) invoke(ctx context.Context, j *job, record progress.Record) {
	started := time.Now()
	var outcome progress.Outcome
	returned := false
	// Each step is deferred, because it must happen even if the task's function or OnAttempt calls runtime.Goexit.
	defer func() { s.finishRun(j, outcome) }()
	defer func() { s.callOnAttempt(j, record, outcome) }()
	defer func() {
		if !returned {
			fault := guard.Exited("")
			outcome = j.task.Policy.Outcome(record, time.Now(), &progress.PanicError{Value: fault.Value, Stack: fault.Stack})
		}
		s.report(j, record, outcome, time.Since(started))
	}()
	outcome = j.task.Policy.Attempt(ctx, record, started, func(ctx context.Context) error {
		return j.task.Run(ctx, record.Attempt())
	})
	returned = true
}

func (s *Supervisor) callOnAttempt(j *job, record progress.Record, outcome progress.Outcome) {
	if j.task.OnAttempt == nil {
		return
	}
	if err := guard.Catch("OnAttempt", func() error { j.task.OnAttempt(record, outcome); return nil }); err != nil {
		s.logger(j).Error(err, "OnAttempt panicked", "stack", guard.Trace(err))
	}
}

func (s *Supervisor) finishRun(j *job, outcome progress.Outcome) {
	s.mu.Lock()
	defer s.unlock()
	r := j.run
	j.run = nil
	j.dequeue() // cancel the pending warning
	r.cancel(nil)
	if !r.abandoned {
		s.releaseRun(j)
	}
	s.reportStopped(j, r)
	if j.phase == stopping {
		s.handleStopped(j, r)
		return
	}
	now := time.Now()
	switch {
	case !outcome.Final:
		j.record = new(j.attempts().WithOutcome(outcome, now))
		j.enter(waiting)
		s.scheduleAt(j, now.Add(outcome.Delay))
	case j.task.Timer == nil:
		s.handleDaemonEnd(j, outcome, now)
	default:
		s.handleTimerEnd(j, outcome, now, j.object.touches != r.touches)
	}
}

// releaseRun stops counting a run that has ended or was abandoned.
func (s *Supervisor) releaseRun(j *job) {
	if s.awaitedRuns--; s.shuttingDown {
		s.wakeLoop()
	}
	if g := j.group; g != nil {
		g.running--
		s.startQueued(g)
	}
	if o := j.object; o.notBusy != nil && !o.busy() {
		close(o.notBusy)
		o.notBusy = nil
	}
}

func (s *Supervisor) handleStopped(j *job, r *run) {
	if !r.abandoned && !r.forgotten {
		s.notify(j)
	}
	if j.next == nil || s.shuttingDown {
		s.drop(j)
		return
	}
	j.enter(absent)
	s.start(j, *j.next)
}

// handleDaemonEnd restarts or ends a daemon that returned without being stopped.
func (s *Supervisor) handleDaemonEnd(j *job, outcome progress.Outcome, now time.Time) {
	restart := j.task.Restart == RestartAlways || j.task.Restart == RestartOnFailure && !outcome.Success
	if !restart {
		s.end(j)
		return
	}
	pause, maxPause := j.task.restartPause(j.restarts)
	if now.Sub(j.attempts().Started) > maxPause {
		j.restarts = 0
		pause, _ = j.task.restartPause(0)
	}
	j.restarts++
	j.record = nil
	j.enter(waiting)
	s.scheduleAt(j, now.Add(pause))
}

// handleTimerEnd decides what follows a timer's success or permanent failure.
func (s *Supervisor) handleTimerEnd(j *job, outcome progress.Outcome, now time.Time, touched bool) {
	failure := j.attempts().WithOutcome(outcome, now)
	j.record = nil
	switch repeats := j.task.Timer.repeats(); {
	case outcome.Success && repeats:
		point, err := j.task.Timer.nextPoint(j.point, now)
		s.schedulePoint(j, point, now, err)
	case touched:
		s.reactivate(j)
	case outcome.Success:
		j.enter(dormant)
	default:
		j.record = new(failure) // for Status; reactivate clears it
		j.enter(failed)
	}
}
