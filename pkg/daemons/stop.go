package daemons

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
)

// Stop stops a daemon or timer and cancels the context of its run with the cause. Once the run has returned or is abandoned, the supervisor
// calls OnEnd of its [Options], and [Supervisor.Ensure] can start the task again. Stop has no effect on a task that has ended permanently.
func (s *Supervisor) Stop(key Key, cause error) {
	s.mu.Lock()
	defer s.unlock()
	if j := s.objects[key.UID].find(key.ID); j != nil {
		s.stop(j, cause)
	}
}

// StopAll stops all daemons and timers of an object, see [Supervisor.Stop].
func (s *Supervisor) StopAll(uid types.UID, cause error) {
	s.mu.Lock()
	defer s.unlock()
	for _, j := range s.jobsOf(uid) {
		s.stop(j, cause)
	}
}

// StopWaiting removes the daemons and timers of an object whose functions aren't running, while running functions continue. Use it if you
// don't know yet why to stop them. [Supervisor.Ensure] can start the removed tasks again.
func (s *Supervisor) StopWaiting(uid types.UID) {
	s.mu.Lock()
	defer s.unlock()
	for _, j := range s.jobsOf(uid) {
		if j.phase != active {
			s.stop(j, nil)
		}
	}
}

// Forget discards the state of a deleted object, including its ended tasks. It stops the object's runs with [ErrDeleted], but doesn't call
// OnEnd for them.
func (s *Supervisor) Forget(uid types.UID) {
	s.mu.Lock()
	defer s.unlock()
	for _, j := range s.jobsOf(uid) {
		s.stop(j, ErrDeleted)
		if j.phase == stopping {
			j.run.forgotten = true
		}
		s.cleanUp(j)
	}
}

// jobsOf returns a copy of the object's list of jobs, because stopping a job can remove it from the list.
func (s *Supervisor) jobsOf(uid types.UID) []*job {
	if o := s.objects[uid]; o != nil {
		return slices.Clone(o.jobs)
	}
	return nil
}

func (s *Supervisor) stop(j *job, cause error) {
	j.next = nil
	switch j.phase {
	case active:
		s.cancel(j, cause)
	case stopping, ended:
	default:
		s.drop(j)
	}
}

// minStopTime is how long a cancelled run has at least before the first warning and before it is abandoned. It doesn't apply to ReportEvery
// and the grace period.
const minStopTime = 10 * time.Millisecond

func (s *Supervisor) cancel(j *job, cause error) {
	now, r := time.Now(), j.run
	r.cancel(cause)
	r.cause, r.stoppedAt = cause, now
	var backoff time.Duration
	if j.task.CancellationBackoff != nil {
		backoff = *j.task.CancellationBackoff
		r.nextReport = now.Add(max(minStopTime, backoff))
	} else {
		r.nextReport = now.Add(s.options.ReportEvery)
	}
	if timeout := j.task.CancellationTimeout; timeout != nil {
		r.abandonAt = now.Add(max(minStopTime, backoff+*timeout))
	}
	j.enter(stopping)
	s.scheduleCheck(j)
}

// limitWait sets the grace period for a stopping run without a CancellationTimeout.
func (s *Supervisor) limitWait(j *job) {
	if r := j.run; r.abandonAt.IsZero() {
		r.abandonAt = time.Now().Add(s.options.GracePeriod)
		s.scheduleCheck(j)
	}
}

// scheduleCheck schedules the next check of a stopping run.
func (s *Supervisor) scheduleCheck(j *job) {
	due := j.run.nextReport
	if abandon := j.run.abandonAt; !abandon.IsZero() && abandon.Before(due) {
		due = abandon
	}
	s.scheduleAt(j, due)
}

// checkStopping handles a stopping run that hasn't returned in time.
func (s *Supervisor) checkStopping(j *job) {
	now, r := time.Now(), j.run
	if !r.abandonAt.IsZero() && !now.Before(r.abandonAt) {
		s.abandon(j)
		return
	}
	s.reportUnstopped(j, "waiting")
	r.nextReport = now.Add(s.options.ReportEvery)
	s.scheduleCheck(j)
}

// abandon stops waiting for a run. The function is still running, so no new run of the key can start yet.
func (s *Supervisor) abandon(j *job) {
	s.reportUnstopped(j, "abandoned")
	metrics.BackgroundAbandoned.WithLabelValues(j.task.Kind, j.task.label(j.key)).Inc()
	j.run.abandoned = true
	s.releaseRun(j)
	if !j.run.forgotten {
		s.notify(j)
	}
}

// shutDown stops all jobs and prevents new starts.
func (s *Supervisor) shutDown() {
	s.mu.Lock()
	defer s.unlock()
	s.shuttingDown = true
	for uid := range s.objects {
		for _, j := range s.jobsOf(uid) {
			s.stop(j, ErrShutdown)
			s.cleanUp(j)
		}
	}
}

// cleanUp discards an ended job, and limits the remaining time of a stopping job.
func (s *Supervisor) cleanUp(j *job) {
	switch {
	case j.phase == ended:
		s.drop(j)
	case j.phase == stopping && !j.run.abandoned:
		s.limitWait(j)
	}
}
