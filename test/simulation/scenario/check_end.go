package scenario

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// conclude checks what can only be told in the end, of each object by itself.
func (w *world) conclude() {
	w.mu.Lock()
	defer w.mu.Unlock()
	byObject := map[types.UID][]*call{}
	for _, c := range w.calls {
		byObject[c.uid] = append(byObject[c.uid], c)
	}
	for uid, h := range w.histories {
		if len(h.states) == 0 {
			w.blamef(Settles, "an object that nobody has made: %s", uid)
			continue
		}
		j := judgement{w, h, byObject[uid], w.alive[uid] != nil}
		if !j.changes(NeverLost, State.withoutTags) {
			j.changes(NeverLostLists, func(s State) State { return s })
		}
		j.ownEdits()
		if obj := w.alive[uid]; obj != nil {
			j.remains(obj)
		}
	}
	w.checkResumptions(byObject)
}

// A judgement is about one object.
type judgement struct {
	*world
	*history
	calls []*call
	alive bool
}

// changes makes sure that no change is lost, looking at a part of the state only. It reports whether one is.
func (j judgement) changes(p Property, part func(State) State) (lost bool) {
	states := make([]State, len(j.states))
	for i, s := range j.states {
		states[i] = part(s)
	}
	before := len(j.violations)
	j.baselinesAreSeen(p, states, part)
	j.updatesJoin(p, states, part)
	j.lastIsSeen(p, states)
	return len(j.violations) > before
}

// baselinesAreSeen makes sure that what was stored as handled was seen by all that it concerns: when it is
// stored, each handler for the cause has finished with that state, with a later one, or with one like it (B-01).
func (j judgement) baselinesAreSeen(p Property, states []State, part func(State) State) {
	reason, at := kopf.ReasonCreate, 0
	for _, b := range j.baselines {
		next := slices.Index(states[at:], part(b.state))
		if next < 0 {
			j.blamef(p, "the baseline of %s becomes %s, which it never was after %s", j.name, b.state, j.states[at])
			return
		}
		next += at
		if next == at && reason == kopf.ReasonUpdate {
			continue // only what handlers have changed themselves was added
		}
		for i := range j.plan.Handlers {
			handler := &j.plan.Handlers[i]
			if !handler.wants(reason) {
				continue
			}
			last := j.lastFinal(handler, b.moment)
			if last == nil && reason == kopf.ReasonCreate {
				j.blamef(p, "the baseline of %s becomes %s, but %s was never done", j.name, b.state, handler.ID)
				continue
			}
			seen := 0 // what was handled when the object was new
			if last != nil {
				seen = j.index(last.version)
			}
			if seen < next && states[seen] != states[next] {
				j.blamef(p, "the baseline of %s becomes %s, but %s has only seen %s", j.name, b.state, handler.ID, j.states[seen])
			}
		}
		reason, at = kopf.ReasonUpdate, next
	}
}

// lastFinal is the last call of a handler that was done with it, before a moment.
func (j judgement) lastFinal(h *Handler, before int) *call {
	for _, c := range slices.Backward(j.calls) {
		if c.handler == h && c.final && c.ended < before {
			return c
		}
	}
	return nil
}

// lastWritten is the last call of a handler that was done with it, as far as its operator has written anything
// after. What a crash has cut off is not known to the next one: it calls again, unless all was undone meanwhile.
func (j judgement) lastWritten(h *Handler) *call {
	for _, c := range slices.Backward(j.calls) {
		if c.handler == h && c.final && c.ended < j.lastWrites[c.life] {
			return c
		}
	}
	return nil
}

// updatesJoin makes sure that the updates of each handler join: the next begins where the last has ended, or before
// (B-01). Handlers that resume along with an update are told only of this one; and of what was undone midway, those
// that have failed for it are told with the others (0007 of the decisions).
func (j judgement) updatesJoin(p Property, states []State, part func(State) State) {
	for _, c := range j.calls {
		if c.reason != kopf.ReasonUpdate || c.old == nil || !c.handler.wants(c.reason) || c.turned {
			continue
		}
		from := slices.Index(states, part(*c.old))
		if from < 0 || from > j.index(c.version) {
			j.blamef(p, "%s: it is told that the object was %s, which it never was", c, c.old)
		} else if last := j.lastFinal(c.handler, c.began); last != nil && from > j.index(last.version) {
			j.blamef(p, "%s: it is told what has changed since %s, but has only seen %s", c, c.old, last.state)
		}
	}
}

// lastIsSeen makes sure that the last thing that everybody has seen of updates is the last state (B-01).
func (j judgement) lastIsSeen(p Property, states []State) {
	for i := range j.plan.Handlers {
		handler := &j.plan.Handlers[i]
		updated := slices.ContainsFunc(j.calls, func(c *call) bool {
			return c.handler == handler && c.reason == kopf.ReasonUpdate && c.final
		})
		if !j.alive || !updated || !handler.wants(kopf.ReasonUpdate) {
			continue
		}
		c := j.lastWritten(handler)
		if c == nil {
			continue
		}
		if states[j.index(c.version)] != states[len(states)-1] {
			j.blamef(p, "%s has seen %s at last, but %s is %s", handler.ID, c.state, j.name, j.states[len(states)-1])
		}
	}
}

// ownEdits makes sure that each update has something that others than the handlers have changed (B-13).
func (j judgement) ownEdits() {
	for _, c := range j.calls {
		if c.reason != kopf.ReasonUpdate || c.old == nil || c.turned {
			continue
		}
		seen := j.index(c.version)
		from := max(0, slices.Index(j.states[:seen+1], *c.old))
		if !slices.ContainsFunc(j.states[from:seen+1], func(s State) bool { return s != *c.old }) {
			j.blamef(OwnEdits, "%s: nobody has changed anything since %s", c, c.old)
		}
	}
}

// remains looks at what is left of the object in the end: it is what users have made of it, without records.
func (j judgement) remains(obj *unstructured.Unstructured) {
	is, last := stateOf(obj.Object), j.states[len(j.states)-1]
	switch {
	case is.withoutTags() != last.withoutTags():
		j.blamef(KeepsEdits, "%s is %s, and should be %s", j.name, is, last)
	case is != last:
		j.blamef(KeepsLists, "%s is %s, and should be %s", j.name, is, last)
	}
	if left := (view{obj}).leftovers(); len(left) > 0 {
		j.blamef(Leftovers, "%s has still %s", j.name, left)
	}
}

// A resumption is what one life of the operator owes to an object.
type resumption struct {
	life int
	uid  types.UID
}

// checkResumptions makes sure that the last life has resumed what it has found, and none twice (B-12).
func (w *world) checkResumptions(byObject map[types.UID][]*call) {
	for i := range w.plan.Handlers {
		handler := &w.plan.Handlers[i]
		if !handler.wants(kopf.ReasonResume) {
			continue
		}
		for uid, calls := range byObject {
			count := map[int]int{}
			for _, c := range calls {
				if c.handler == handler && c.final && c.reason == kopf.ReasonResume {
					count[c.life]++
				}
			}
			for life, n := range count {
				if n > 1 {
					w.blamef(ResumesAgain, "%s has resumed %s %d times in life %d", handler.ID, w.of(uid).name, n, life)
				}
			}
		}
		for r := range w.listed {
			called := slices.ContainsFunc(byObject[r.uid], func(c *call) bool {
				return c.handler == handler && c.final && c.life == r.life
			})
			if _, alive := w.alive[r.uid]; alive && r.life == w.life && !called {
				w.blamef(Resumes, "%s has not resumed %s in life %d", handler.ID, w.of(r.uid).name, r.life)
			}
		}
	}
}
