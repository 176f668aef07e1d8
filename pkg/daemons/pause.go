package daemons

// A pause prevents starts, either of all jobs or of those in some namespaces.
type pause struct {
	everywhere bool
	namespaces map[string]bool
}

func (p *pause) covers(namespace string) bool { return p.everywhere || p.namespaces[namespace] }

// isPaused reports whether a job must not start.
func (s *Supervisor) isPaused(j *job) bool { return s.paused.covers(j.task.Object.Namespace) }

// Pause stops all runs with [ErrPaused] and prevents starts until [Supervisor.Resume]. With namespaces, it affects only
// objects in these namespaces. Permanently failed timers continue to wait for [Supervisor.Touch].
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

// Resume ends a pause and starts all suspended jobs after their InitialDelay. A job whose run is still stopping starts when
// that run has ended. Without namespaces, Resume ends all pauses. With namespaces, it ends only the pauses of these
// namespaces.
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
