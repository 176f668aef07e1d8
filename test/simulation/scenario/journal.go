package scenario

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// journal records the events of one run in order. It is safe for concurrent use.
type journal struct {
	mu         sync.Mutex
	began      time.Time
	lines      []string
	violations []Violation
	moments    int // counter for the order of events
	calls      []*call
	histories  map[types.UID]*history
	// lastRecorded contains the moments of the last writes of records or baselines.
	lastRecorded map[resumption]int
}

// call is one call of a handler.
type call struct {
	reverted     bool   // whether the call is for a reverted update
	request      string // for the handler, on the object in the request
	asked        bool   // whether the request is not answered yet
	handler      *Handler
	uid          types.UID
	name         string
	process      int // number of the operator process
	reason       kopf.Reason
	attempt      int
	version      int64 // version of the object in the request
	state        State // state of the object in the request
	old          *State
	start, end   time.Time
	began, ended int // moments; ended is 0 during the call and after a crash
	outcome
}

func (c *call) String() string {
	return fmt.Sprintf("%s of %s for %s #%d", c.handler.ID, c.name, c.reason, c.attempt)
}

// history contains the changes of one object by users, with states and versions.
type history struct {
	name      string
	states    []State
	versions  []int64
	baselines []baseline
}

// baseline is a baseline that the operator has stored.
type baseline struct {
	moment int
	state  State
}

// index returns the index of the state at a version of the object.
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
	j.violateLockedf(p, format, args...)
}

// violateLockedf is violatef for callers that hold the lock.
func (j *journal) violateLockedf(p Property, format string, args ...any) {
	v := Violation{p, fmt.Sprintf(format, args...)}
	j.violations = append(j.violations, v)
	j.notef("VIOLATION: %s", v)
}

func (j *journal) moment() int {
	j.moments++
	return j.moments
}

// historyOf returns the history of an object. The caller must hold the lock.
func (j *journal) historyOf(uid types.UID) *history {
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
