package logs

import (
	"slices"
	"time"
)

// maxRecent limits the timestamps in a position. A container runtime can swap lines of stdout and stderr that are written at the same time, so
// the newest timestamp is not sufficient.
const maxRecent = 8

// A position identifies the handled lines of a container. The logs of all instances of the container form one sequence of lines. The handled lines are
// always at the beginning of this sequence.
type position struct {
	// Floor is a time up to which all lines are handled or ignored.
	Floor time.Time `json:"floor,omitzero"`
	// Recent has the newest timestamps of handled lines after Floor, in ascending order.
	Recent []timestamp `json:"recent,omitempty"`
}

// A timestamp is the time of one or more handled lines.
type timestamp struct {
	Time  time.Time `json:"time"`
	Lines int       `json:"lines"`
}

// add records a handled line.
func (p *position) add(t time.Time) {
	if t.Before(p.Floor.Add(-time.Second)) {
		*p = position{} // the clock was set back, so Floor is later than the next lines
	}
	i, found := slices.BinarySearchFunc(p.Recent, t, func(r timestamp, t time.Time) int { return r.Time.Compare(t) })
	if found {
		p.Recent[i].Lines++
		return
	}
	p.Recent = slices.Insert(p.Recent, i, timestamp{t, 1})
	if len(p.Recent) > maxRecent {
		if p.Recent[0].Time.After(p.Floor) {
			p.Floor = p.Recent[0].Time
		}
		p.Recent = slices.Delete(p.Recent, 0, 1)
	}
}

// since returns the time from which the log must be read again, or zero for the beginning. If lines were handled, the time is one second before
// the oldest recent timestamp, because the container runtime can have swapped lines.
func (p *position) since() time.Time {
	if len(p.Recent) > 0 {
		return p.Recent[0].Time.Add(-time.Second)
	}
	return p.Floor
}

// newest returns the newest time of a handled line, or Floor if no line was handled.
func (p *position) newest() time.Time {
	if n := len(p.Recent); n > 0 {
		return p.Recent[n-1].Time
	}
	return p.Floor
}

func (p *position) clone() position { return position{p.Floor, slices.Clone(p.Recent)} }

// A skipper finds the first unhandled line of a stream. All later lines of the stream are unhandled, too.
type skipper struct {
	position
	done bool
}

// skip reports whether the next line of the stream is already handled.
func (s *skipper) skip(t time.Time) bool {
	switch i := slices.IndexFunc(s.Recent, func(r timestamp) bool { return r.Time.Equal(t) }); {
	case s.done:
		return false
	case !t.After(s.Floor):
		return true
	case i >= 0 && s.Recent[i].Lines > 0:
		s.Recent[i].Lines--
		return true
	}
	s.done = true
	return false
}
