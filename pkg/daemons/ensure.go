package daemons

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Ensure sees to it that the daemon or timer is there, and does nothing if it is: the task of a live one is not
// replaced. One that is stopping is started, with this task, as soon as the old run has ended. One that has come to an
// end by itself stays down until [Supervisor.Forget]. During a pause it is started after it.
//
// The error tells all mistakes in the task, as [Task.Check] does. When the supervisor is shutting down, nothing happens.
func (s *Supervisor) Ensure(key Key, task Task) error {
	s.mu.Lock()
	defer s.unlock()
	j := s.objects[key.UID].find(key.ID)
	if s.closed || j != nil && j.phase != stopping && j.phase != held {
		return nil
	}
	if err := task.Check(); err != nil {
		return fmt.Errorf("%s of object %s:\n%w", key.ID, key.UID, err)
	}
	switch {
	case j == nil:
		s.start(s.add(key), task)
	case j.phase == held:
		s.adopt(j, task)
	default:
		j.next = &task
	}
	return nil
}

// Lacks reports whether [Supervisor.Ensure] would do anything, to make tasks only for those that need one.
func (s *Supervisor) Lacks(key Key) bool {
	s.mu.Lock()
	defer s.unlock()
	j := s.objects[key.UID].find(key.ID)
	return !s.closed && (j == nil || j.phase == stopping && j.next == nil || j.phase == held)
}

func (s *Supervisor) add(key Key) *job {
	o := s.objects[key.UID]
	if o == nil {
		o = &object{uid: key.UID, touched: time.Now()}
		s.objects[key.UID] = o
	}
	j := &job{key: key, object: o}
	o.jobs = append(o.jobs, j)
	return j
}

// drop forgets a job that has no run.
func (s *Supervisor) drop(j *job) {
	j.remove()
	j.enter(absent)
	s.leave(j)
	o := j.object
	for i := range o.jobs {
		if o.jobs[i] == j {
			last := len(o.jobs) - 1
			o.jobs[i], o.jobs[last] = o.jobs[last], nil
			o.jobs = o.jobs[:last]
			break
		}
	}
	if len(o.jobs) == 0 {
		delete(s.objects, o.uid)
	}
}

// adopt gives a task to a job that does nothing at the moment.
func (s *Supervisor) adopt(j *job, task Task) {
	s.leave(j)
	j.task = task
	if task.Timer != nil {
		j.last = task.Timer.Last
		s.join(j)
	}
}

// start begins anew with a task, or will after the pause.
func (s *Supervisor) start(j *job, task Task) {
	s.adopt(j, task)
	if s.isPaused(j) {
		j.enter(held)
		return
	}
	s.spawn(j)
}

// spawn has a job wait for its first invocation.
func (s *Supervisor) spawn(j *job) {
	j.record, j.restarts, j.next = progress.Record{}, 0, nil
	from := time.Now().Add(j.task.InitialDelay)
	if j.task.Timer == nil {
		j.enter(waiting)
		s.wait(j, from)
		return
	}
	point, err := j.task.Timer.first(j.last, from)
	s.await(j, point, from, err)
}

// await has a timer wait for a point in time, or for a later one if the object has not been idle for long enough by
// then. There is no point any more if it is zero. If there is an error, the schedule is asked again after a pause.
func (s *Supervisor) await(j *job, point, earliest time.Time, err error) {
	t, idle := j.task.Timer, j.idleUntil()
	j.unscheduled = false
	if err == nil && !point.IsZero() && idle.After(later(point, earliest)) {
		point, err = t.notBefore(idle)
		earliest = idle
	}
	switch {
	case err != nil:
		s.complain(j, err)
		j.unscheduled = true
		j.enter(waiting)
		s.wait(j, time.Now().Add(schedulePause))
	case point.IsZero():
		if t.Schedule != nil {
			s.reportEnd(j)
		}
		s.end(j)
	default:
		j.point = point
		now := time.Now()
		wait := later(earliest, point).Sub(now) + t.jitter(point) // in terms of the monotonic clock
		j.enter(waiting)
		s.wait(j, now.Add(wait))
	}
}

// schedulePause is the time until a schedule that returned an unusable time is asked again.
const schedulePause = time.Minute

// end leaves a job down for good. Its task is let go.
func (s *Supervisor) end(j *job) {
	j.enter(ended)
	s.leave(j)
	j.task, j.record = Task{}, progress.Record{}
	s.notify(j)
}

// Touch says that the object has changed in a way that matters: timers with Idle wait for their time again, and
// those that had failed for good are invoked again.
func (s *Supervisor) Touch(uid types.UID) {
	s.mu.Lock()
	defer s.unlock()
	o := s.objects[uid]
	if o == nil {
		return
	}
	o.touched = time.Now()
	o.touches++
	for _, j := range o.jobs {
		if j.phase == dormant {
			s.awaken(j)
		}
	}
}

func (s *Supervisor) awaken(j *job) {
	j.record = progress.Record{}
	if s.isPaused(j) {
		j.enter(held)
		return
	}
	now := time.Now()
	point, err := j.task.Timer.notBefore(now)
	s.await(j, point, now, err)
}
