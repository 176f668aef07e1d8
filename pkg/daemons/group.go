package daemons

// A group is a set of timers that share a limit for concurrent runs.
type group struct {
	id      groupID
	limit   int
	members int
	running int
	waiting queue
}

// A groupID is the configured name of a group or, by default, the kind and id of a handler.
type groupID struct{ name, kind, handler string }

// joinGroup adds a timer to its group. The last timer to join sets the limit.
func (s *Supervisor) joinGroup(j *job) {
	t := j.task.Timer
	id := groupID{name: t.Group}
	if t.Group == "" {
		id = groupID{kind: j.task.Kind, handler: j.key.ID}
	}
	g := s.groups[id]
	if g == nil {
		g = &group{id: id}
		s.groups[id] = g
	}
	g.limit = t.MaxParallel
	if g.limit == 0 {
		g.limit = DefaultMaxParallel
	}
	g.members++
	j.group = g
}

func (s *Supervisor) leaveGroup(j *job) {
	if g := j.group; g != nil {
		j.group = nil
		if g.members--; g.members == 0 {
			delete(s.groups, g.id)
		}
	}
}

func (g *group) full() bool { return g != nil && g.running >= g.limit }

// startQueued starts queued timers of the group, up to its limit.
func (s *Supervisor) startQueued(g *group) {
	for g != nil && !g.full() {
		j := g.waiting.head()
		if j == nil {
			return
		}
		j.dequeue()
		s.startDue(j)
	}
}
