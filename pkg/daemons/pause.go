package daemons

// A pause keeps jobs from starting, either everywhere or in some namespaces.
type pause struct {
	everywhere bool
	namespaces map[string]bool
}

func (p *pause) covers(namespace string) bool { return p.everywhere || p.namespaces[namespace] }

func (s *Supervisor) isPaused(j *job) bool { return s.paused.covers(j.task.Object.Namespace) }

// Pause stops all runs with [ErrPaused] and starts no new ones until [Supervisor.Resume]. With namespaces, it affects only objects in them.
// Timers that wait for [Supervisor.Touch] continue to wait.
func (s *Supervisor) Pause(namespaces ...string) {
	s.mu.Lock()
	defer s.unlock()
	s.paused.everywhere = s.paused.everywhere || len(namespaces) == 0
	for _, namespace := range namespaces {
		if s.paused.namespaces == nil {
			s.paused.namespaces = map[string]bool{}
		}
		s.paused.namespaces[namespace] = true
	}
	for _, o := range s.objects {
		for _, j := range o.jobs {
			if s.isPaused(j) {
				s.suspend(j)
			}
		}
	}
}

func (s *Supervisor) suspend(j *job) {
	switch j.phase {
	case active:
		j.next = new(j.task)
		s.cancel(j, ErrPaused)
	case waiting, queued:
		j.dequeue()
		j.enter(suspended)
	default:
	}
}

// Resume ends the pauses of the given namespaces or, without namespaces, all pauses. The affected daemons and timers start again after
// their InitialDelay. If a run is still stopping, the new one starts when it has ended.
func (s *Supervisor) Resume(namespaces ...string) {
	s.mu.Lock()
	defer s.unlock()
	if len(namespaces) == 0 {
		s.paused = pause{}
	}
	for _, namespace := range namespaces {
		delete(s.paused.namespaces, namespace)
	}
	for _, o := range s.objects {
		for _, j := range o.jobs {
			if j.phase == suspended && !s.isPaused(j) {
				s.scheduleFirst(j)
			}
		}
	}
}
