package daemons

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Ensure starts the daemon or timer if it doesn't exist yet. It doesn't replace the task of an existing one, unless that is paused. If a
// run of the key is stopping, the new task starts as soon as that run has returned. A task that has ended permanently isn't started again
// until [Supervisor.Forget]. During a pause, Ensure stores the task, which starts after the pause.
//
// Ensure returns all errors in the task definition, joined (see [Task.Check]). During shutdown, it does nothing.
func (s *Supervisor) Ensure(key Key, task Task) error {
	s.mu.Lock()
	defer s.unlock()
	j := s.objects[key.UID].find(key.ID)
	if s.shuttingDown || j != nil && j.phase != stopping && j.phase != suspended {
		return nil
	}
	if err := task.Check(); err != nil {
		return fmt.Errorf("daemon or timer %q of object %s:\n%w", key.ID, key.UID, err)
	}
	switch {
	case j == nil:
		s.start(s.add(key), task)
	case j.phase == suspended:
		s.assign(j, task)
	default:
		j.next = &task
	}
	return nil
}

// NeedsStart reports whether [Supervisor.Ensure] must be called for the key. Use it to avoid building tasks that aren't needed.
func (s *Supervisor) NeedsStart(key Key) bool {
	s.mu.Lock()
	defer s.unlock()
	j := s.objects[key.UID].find(key.ID)
	return !s.shuttingDown && (j == nil || j.phase == stopping && j.next == nil || j.phase == suspended)
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

// drop discards a job without a run.
func (s *Supervisor) drop(j *job) {
	j.dequeue()
	j.enter(absent)
	s.leaveGroup(j)
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

// assign sets the task of an inactive job.
func (s *Supervisor) assign(j *job, task Task) {
	s.leaveGroup(j)
	j.task = task
	if task.Timer != nil {
		j.lastInvocation = task.Timer.Last
		s.joinGroup(j)
	}
}

// start starts a job, or suspends it during a pause.
func (s *Supervisor) start(j *job, task Task) {
	s.assign(j, task)
	if s.isPaused(j) {
		j.enter(suspended)
		return
	}
	s.scheduleFirst(j)
}

func (s *Supervisor) scheduleFirst(j *job) {
	j.record, j.restarts, j.next = nil, 0, nil
	start := time.Now().Add(j.task.InitialDelay)
	if j.task.Timer == nil {
		j.enter(waiting)
		s.scheduleAt(j, start)
		return
	}
	point, err := j.task.Timer.firstPoint(j.lastInvocation, start)
	s.schedulePoint(j, point, start, err)
}

// schedulePoint schedules a timer for a point in time, or for a later one if the object won't have been idle for long enough by then. A
// zero point ends the timer. After an error, the schedule is called again after schedulePause.
func (s *Supervisor) schedulePoint(j *job, point, earliest time.Time, err error) {
	t, idle := j.task.Timer, j.idleUntil()
	j.retrySchedule = false
	if err == nil && !point.IsZero() && idle.After(later(point, earliest)) {
		point, err = t.pointNotBefore(idle)
		earliest = idle
	}
	switch {
	case err != nil:
		s.logScheduleError(j, err)
		j.retrySchedule = true
		j.enter(waiting)
		s.scheduleAt(j, time.Now().Add(schedulePause))
	case point.IsZero():
		if t.Schedule != nil {
			s.logScheduleEnd(j)
		}
		s.end(j)
	default:
		j.point = point
		now := time.Now()
		wait := later(earliest, point).Sub(now) + t.jitter(point) // Sub uses the monotonic clock
		j.enter(waiting)
		s.scheduleAt(j, now.Add(wait))
	}
}

// schedulePause is the delay after an invalid result of a schedule.
const schedulePause = time.Minute

// end ends a job permanently and releases its task.
func (s *Supervisor) end(j *job) {
	j.enter(ended)
	s.leaveGroup(j)
	j.task, j.record = Task{}, nil
	s.notify(j)
}

// Touch reports a relevant change to the object. It restarts the idle time of timers, and schedules the timers that wait for a change:
// those that have failed permanently, and those that have succeeded and have neither an Interval nor a Schedule.
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
		if j.phase == dormant || j.phase == failed {
			s.reactivate(j)
		}
	}
}

// RunNow starts a waiting daemon or timer: it cuts an interval, an idle time and the delay before a retry short, and starts a timer that
// waits for a change. A timer above the limit of its group is queued. RunNow returns an error if the task is not waiting. That is
// [ErrPaused] during a pause, and while a run that will be replaced is still stopping.
func (s *Supervisor) RunNow(key Key) error {
	s.mu.Lock()
	defer s.unlock()
	j := s.objects[key.UID].find(key.ID)
	switch {
	case j == nil || s.shuttingDown:
		return errors.New("it is not started")
	case j.phase == suspended, j.phase == stopping && j.next != nil:
		return ErrPaused
	case j.phase == active, j.phase == stopping:
		return errors.New("it is running")
	case j.phase == ended:
		return errors.New("it has ended, and is not started again in this process")
	case j.phase == dormant, j.phase == failed:
		j.record = nil
	}
	now := time.Now()
	if j.attempts().Retries == 0 {
		j.point = now
	}
	if j.isForced = true; j.phase == queued {
		return nil
	}
	j.enter(waiting)
	s.scheduleAt(j, now)
	return nil
}

func (s *Supervisor) reactivate(j *job) {
	j.record = nil
	if s.isPaused(j) {
		j.enter(suspended)
		return
	}
	now := time.Now()
	point, err := j.task.Timer.pointNotBefore(now)
	s.schedulePoint(j, point, now, err)
}
