package daemons

// Pause stops everything with [ErrPaused]; nothing is started until [Supervisor.Resume]. Timers that wait for their
// objects to be touched go on waiting.
func (s *Supervisor) Pause() {
	s.mu.Lock()
	defer s.unlock()
	if s.paused {
		return
	}
	s.paused = true
	for _, o := range s.objects {
		for _, j := range o.jobs {
			s.suspend(j)
		}
	}
}

func (s *Supervisor) suspend(j *job) {
	switch j.phase {
	case active:
		j.next = new(j.task)
		s.cancel(j, ErrPaused)
	case waiting, queued:
		j.remove()
		j.enter(held)
	default:
	}
}

// Resume starts everything again that was stopped by [Supervisor.Pause], or that was to be started meanwhile: anew,
// with its InitialDelay. What has not ended yet is started when it has.
func (s *Supervisor) Resume() {
	s.mu.Lock()
	defer s.unlock()
	s.paused = false
	for _, o := range s.objects {
		for _, j := range o.jobs {
			if j.phase == held {
				s.spawn(j)
			}
		}
	}
}
