package daemons

import (
	"context"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// begin invokes a job that is due, unless its object is not idle any more, or its group is full.
func (s *Supervisor) begin(j *job) {
	now := time.Now()
	switch idle := j.idleUntil(); {
	case j.unscheduled:
		point, err := j.task.Timer.notBefore(now)
		s.await(j, point, now, err)
	case idle.After(now) && j.record.Retries > 0: // a retry stands for the point of its first attempt
		j.enter(waiting)
		s.wait(j, idle)
	case idle.After(now):
		point, err := j.task.Timer.notBefore(idle)
		s.await(j, point, idle, err)
	case j.group.full():
		j.enter(queued)
		j.group.waiting.push(j, j.due)
	default:
		s.launch(j, now)
	}
}

func (s *Supervisor) launch(j *job, now time.Time) {
	if j.task.Timer != nil {
		metrics.TimerDrift.WithLabelValues(j.task.Kind, j.task.label(j.key)).Observe(now.Sub(j.due).Seconds())
		j.last = time.Time{}
	}
	if j.group != nil {
		j.group.running++
	}
	if j.record.Started.IsZero() {
		j.record.Started = now
	}
	ctx, cancel := context.WithCancelCause(s.base)
	j.run = &run{cancel: cancel, touches: j.object.touches}
	s.awaited++
	j.enter(active)
	go s.invoke(ctx, j, j.record)
}

// invoke is the goroutine of a run. Nothing else changes the task meanwhile.
func (s *Supervisor) invoke(ctx context.Context, j *job, record progress.Record) {
	began := time.Now()
	// This is how it has ended if the goroutine is left without returning.
	outcome := progress.Outcome{Err: errExited, Delay: progress.DefaultBackoff, Attempted: true}
	defer func() {
		s.report(j, record, outcome, time.Since(began))
		if j.task.OnAttempt != nil {
			j.task.OnAttempt(record, outcome)
		}
		s.finish(j, outcome)
	}()
	outcome = j.task.Policy.Attempt(ctx, record, began, func(ctx context.Context) error {
		return j.task.Run(ctx, record.Attempt())
	})
}

// finish takes in how a run has ended, and says how it goes on.
func (s *Supervisor) finish(j *job, outcome progress.Outcome) {
	s.mu.Lock()
	defer s.unlock()
	r := j.run
	j.run = nil
	j.remove() // no report is due any more
	r.cancel(nil)
	if !r.abandoned {
		s.release(j)
	}
	s.heeded(j, r)
	if j.phase == stopping {
		s.stopped(j, r)
		return
	}
	now := time.Now()
	switch {
	case !outcome.Final:
		j.record = j.record.After(outcome, now)
		j.enter(waiting)
		s.wait(j, now.Add(outcome.Delay))
	case j.task.Timer == nil:
		s.returned(j, outcome, now)
	default:
		s.invoked(j, outcome, now, j.object.touches != r.touches)
	}
}

// release is for a run that is not to be waited for any more.
func (s *Supervisor) release(j *job) {
	if s.awaited--; s.closed {
		s.rouse()
	}
	if g := j.group; g != nil {
		g.running--
		s.admit(g)
	}
	if o := j.object; o.quiet != nil && !o.busy() {
		close(o.quiet)
		o.quiet = nil
	}
}

// stopped is for a run that was told to stop, and has ended.
func (s *Supervisor) stopped(j *job, r *run) {
	if !r.abandoned && !r.forgotten {
		s.notify(j)
	}
	if j.next == nil || s.closed {
		s.drop(j)
		return
	}
	j.enter(absent)
	s.start(j, *j.next)
}

// returned is for a daemon that has come to an end by itself.
func (s *Supervisor) returned(j *job, outcome progress.Outcome, now time.Time) {
	again := j.task.Restart == RestartAlways || j.task.Restart == RestartOnFailure && !outcome.Success
	if !again {
		s.end(j)
		return
	}
	pause, longest := j.task.pause(j.restarts)
	if now.Sub(j.record.Started) > longest {
		j.restarts = 0
		pause, _ = j.task.pause(0)
	}
	j.restarts++
	j.record = progress.Record{}
	j.enter(waiting)
	s.wait(j, now.Add(pause))
}

// invoked is for a timer whose chain of attempts is over.
func (s *Supervisor) invoked(j *job, outcome progress.Outcome, now time.Time, touched bool) {
	j.record = progress.Record{}
	switch repeats := j.task.Timer.repeats(); {
	case outcome.Success && repeats:
		point, err := j.task.Timer.next(j.point, now)
		s.await(j, point, now, err)
	case touched:
		s.awaken(j)
	default:
		j.enter(dormant)
	}
}
