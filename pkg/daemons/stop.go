package daemons

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
)

// Stop ends a daemon or timer: at once if it does not run at the moment; otherwise its context ends at once, with
// the cause, and [Options].OnEnd is called when it has returned or was abandoned. Afterwards it can be started again.
// One that has come to an end by itself stays what it is.
func (s *Supervisor) Stop(key Key, cause error) {
	s.mu.Lock()
	defer s.unlock()
	if j := s.objects[key.UID].find(key.ID); j != nil {
		s.stop(j, cause)
	}
}

// StopAll is [Supervisor.Stop] for all daemons and timers of an object.
func (s *Supervisor) StopAll(uid types.UID, cause error) {
	s.mu.Lock()
	defer s.unlock()
	for _, j := range s.jobsOf(uid) {
		s.stop(j, cause)
	}
}

// Forget says that the object is gone: what still runs is stopped with [ErrDeleted], nobody will ask about it any more,
// and what has come to an end by itself is not remembered.
func (s *Supervisor) Forget(uid types.UID) {
	s.mu.Lock()
	defer s.unlock()
	for _, j := range s.jobsOf(uid) {
		s.stop(j, ErrDeleted)
		if j.phase == stopping {
			j.run.forgotten = true
		}
		s.bury(j)
	}
}

// jobsOf is a copy, as jobs that are stopped may be dropped.
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

// instantExit is how long a run that was told to stop has at least, before it is reported or abandoned.
const instantExit = 10 * time.Millisecond

// cancel tells a run to stop.
func (s *Supervisor) cancel(j *job, cause error) {
	now, r := time.Now(), j.run
	r.cancel(cause)
	r.cause, r.told = cause, now
	var backoff time.Duration
	if j.task.CancellationBackoff != nil {
		backoff = *j.task.CancellationBackoff
		r.report = now.Add(max(instantExit, backoff))
	} else {
		r.report = now.Add(s.options.ReportEvery)
	}
	if timeout := j.task.CancellationTimeout; timeout != nil {
		r.abandon = now.Add(max(instantExit, backoff+*timeout))
	}
	j.enter(stopping)
	s.attend(j)
}

// limit has a run abandoned after the grace period that would be waited for without end.
func (s *Supervisor) limit(j *job) {
	if r := j.run; r.abandon.IsZero() {
		r.abandon = time.Now().Add(s.options.GracePeriod)
		s.attend(j)
	}
}

// attend has a stopping run looked at when the next report is due, or its end.
func (s *Supervisor) attend(j *job) {
	due := j.run.report
	if abandon := j.run.abandon; !abandon.IsZero() && abandon.Before(due) {
		due = abandon
	}
	s.wait(j, due)
}

// overdue is for a run that was told to stop and has not ended.
func (s *Supervisor) overdue(j *job) {
	now, r := time.Now(), j.run
	if !r.abandon.IsZero() && !now.Before(r.abandon) {
		s.abandon(j)
		return
	}
	s.unheeding(j, "It is waited for")
	r.report = now.Add(s.options.ReportEvery)
	s.attend(j)
}

// abandon gives up waiting for a run. It is still there, so another one of its key cannot begin.
func (s *Supervisor) abandon(j *job) {
	s.unheeding(j, "It is abandoned: not waited for any more")
	metrics.Abandoned.WithLabelValues(j.task.Kind, j.task.label(j.key)).Inc()
	j.run.abandoned = true
	s.release(j)
	if !j.run.forgotten {
		s.notify(j)
	}
}

// shutDown stops everything, and has nothing start any more.
func (s *Supervisor) shutDown() {
	s.mu.Lock()
	defer s.unlock()
	s.closed = true
	for uid := range s.objects {
		for _, j := range s.jobsOf(uid) {
			s.stop(j, ErrShutdown)
			s.bury(j)
		}
	}
}

// bury leaves nothing of a job that was stopped but its run, for a bounded time.
func (s *Supervisor) bury(j *job) {
	switch {
	case j.phase == ended:
		s.drop(j)
	case j.phase == stopping && !j.run.abandoned:
		s.limit(j)
	}
}
