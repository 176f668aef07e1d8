package scenario

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// A journal is all that was seen in one run, in order. It is safe for concurrent use.
type journal struct {
	mu         sync.Mutex
	began      time.Time
	lines      []string
	violations []Violation
	moments    int // counts what is ordered
	calls      []*call
	histories  map[types.UID]*history
	lastWrites map[int]int // the moment of the last write of each life of the operator
}

// A call is one call of a handler.
type call struct {
	turned       bool // it is told of an update that was undone
	handler      *Handler
	uid          types.UID
	name         string
	life         int // of the operator
	reason       kopf.Reason
	attempt      int
	version      int64 // of the object that it was shown
	state        State // of that object
	old          *State
	start, end   time.Time
	began, ended int // moments; ended is 0 while it goes on, and if the operator did not survive it
	verdict
}

func (c *call) String() string {
	return fmt.Sprintf("%s of %s for %s #%d", c.handler.ID, c.name, c.reason, c.attempt)
}

// A history is what happened to one object; states and versions are those that users have made.
type history struct {
	name      string
	states    []State
	versions  []int64
	baselines []baseline
}

// A baseline is one that the operator has stored, seen on its way.
type baseline struct {
	moment int
	state  State
}

// index is the place of the state that an object of a version has.
func (h *history) index(version int64) int {
	at := 0
	for i, v := range h.versions {
		if v <= version {
			at = i
		}
	}
	return at
}

func (j *journal) logf(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.notef(format, args...)
}

func (j *journal) notef(format string, args ...any) {
	j.lines = append(j.lines, fmt.Sprintf("%10.3fs  %s", time.Since(j.began).Seconds(), fmt.Sprintf(format, args...)))
}

func (j *journal) violatef(p Property, format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.blamef(p, format, args...)
}

// blamef is violatef for those who hold the lock.
func (j *journal) blamef(p Property, format string, args ...any) {
	v := Violation{p, fmt.Sprintf(format, args...)}
	j.violations = append(j.violations, v)
	j.notef("VIOLATION: %s", v)
}

func (j *journal) moment() int {
	j.moments++
	return j.moments
}

// of is the history of an object. The lock is held.
func (j *journal) of(uid types.UID) *history {
	h, ok := j.histories[uid]
	if !ok {
		h = &history{}
		j.histories[uid] = h
	}
	return h
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n")
}
