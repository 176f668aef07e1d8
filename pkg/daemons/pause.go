package daemons

// A pause is where nothing is started: everywhere, or for the objects of some namespaces.
type pause struct {
	everywhere bool
	namespaces map[string]bool
}

func (p *pause) is(namespace string) bool { return p.everywhere || p.namespaces[namespace] }

// isPaused reports whether a job is not to be started.
func (s *Supervisor) isPaused(j *job) bool { return s.paused.is(j.task.Object.Namespace) }

// Pause stops everything with [ErrPaused], or with namespaces, what belongs to the objects in these; nothing is started
// there until [Supervisor.Resume]. Timers that wait for their objects to be touched go on waiting.
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
		j.remove()
		j.enter(held)
	default:
	}
}

// Resume starts everything again that was stopped by [Supervisor.Pause], or that was to be started meanwhile: anew,
// with its InitialDelay. What has not ended yet is started when it has. With namespaces it ends the pause in these alone,
// otherwise all there are.
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
			if j.phase == held && !s.isPaused(j) {
				s.spawn(j)
			}
		}
	}
}
