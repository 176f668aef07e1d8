package daemons

// A group is timers that share a limit: that many of them run at the same time.
type group struct {
	id      groupID
	limit   int
	members int
	running int
	waiting queue
}

// groupID is the name that was given to a group, or else the kind and the id of a handler.
type groupID struct{ name, kind, handler string }

// join puts a timer into its group. The last one to join says what the limit is.
func (s *Supervisor) join(j *job) {
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

func (s *Supervisor) leave(j *job) {
	if g := j.group; g != nil {
		j.group = nil
		if g.members--; g.members == 0 {
			delete(s.groups, g.id)
		}
	}
}

func (g *group) full() bool { return g != nil && g.running >= g.limit }

// admit begins what waits for others of the group to end, as far as they have.
func (s *Supervisor) admit(g *group) {
	for g != nil && !g.full() {
		j := g.waiting.head()
		if j == nil {
			return
		}
		j.remove()
		s.begin(j)
	}
}
