package scenario

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// checkEnd runs the checks for each object that are possible only after the last step.
func (w *world) checkEnd() {
	w.mu.Lock()
	defer w.mu.Unlock()
	byObject := map[types.UID][]*call{}
	for _, c := range w.calls {
		byObject[c.uid] = append(byObject[c.uid], c)
	}
	for uid, h := range w.histories {
		if len(h.states) == 0 {
			w.violateLockedf(Settles, "unknown object %s", uid)
			continue
		}
		j := objectCheck{w, h, byObject[uid], w.alive[uid] != nil}
		if !j.checkChanges(NeverLost, State.withoutTags) {
			j.checkChanges(NeverLostLists, func(s State) State { return s })
		}
		j.checkOwnEdits()
		if obj := w.alive[uid]; obj != nil {
			j.checkFinal(obj)
		}
	}
	w.checkResumptions(byObject)
}

// objectCheck checks one object.
type objectCheck struct {
	*world
	*history
	calls []*call
	alive bool
}

// checkChanges checks that no change in a part of the state is lost. It reports whether a change is lost.
func (j objectCheck) checkChanges(p Property, part func(State) State) (lost bool) {
	states := make([]State, len(j.states))
	for i, s := range j.states {
		states[i] = part(s)
	}
	before := len(j.violations)
	j.checkBaselines(p, states, part)
	j.checkUpdates(p, states, part)
	j.checkLastState(p, states)
	return len(j.violations) > before
}

// checkBaselines checks each stored baseline: every matching handler must have finished with this state, an equal state, or a later state (B-01).
func (j objectCheck) checkBaselines(p Property, states []State, part func(State) State) {
	reason, at := kopf.ReasonCreate, 0
	for _, b := range j.baselines {
		next := slices.Index(states[at:], part(b.state))
		if next < 0 {
			j.violateLockedf(p, "the baseline of %s becomes %s, but the object never had this state after %s", j.name, b.state, j.states[at])
			return
		}
		next += at
		if next == at && reason == kopf.ReasonUpdate {
			continue // only handlers have changed the object
		}
		for i := range j.plan.Handlers {
			handler := &j.plan.Handlers[i]
			if !handler.wants(reason) {
				continue
			}
			last := j.lastFinal(handler, b.moment)
			if last == nil && reason == kopf.ReasonCreate {
				j.violateLockedf(p, "the baseline of %s becomes %s, but %s has not finished", j.name, b.state, handler.ID)
				continue
			}
			seen := 0 // the creation has handled this state
			if last != nil {
				seen = j.index(last.version)
			}
			if seen < next && states[seen] != states[next] {
				j.violateLockedf(p, "the baseline of %s becomes %s, but %s has last seen %s", j.name, b.state, handler.ID, j.states[seen])
			}
		}
		reason, at = kopf.ReasonUpdate, next
	}
}

// lastFinal returns the last completed call of a handler before the moment.
func (j objectCheck) lastFinal(h *Handler, before int) *call {
	for _, c := range slices.Backward(j.calls) {
		if c.handler == h && c.final && c.ended < before {
			return c
		}
	}
	return nil
}

// lastWritten returns the last completed call of a handler after which its operator has written a record or a baseline.
// A crash loses later outcomes, so the next process repeats their calls, unless the change was reverted.
func (j objectCheck) lastWritten(h *Handler) *call {
	for _, c := range slices.Backward(j.calls) {
		if c.handler == h && c.final && c.ended < j.lastRecorded[resumption{c.process, c.uid}] {
			return c
		}
	}
	return nil
}

// checkUpdates checks that the updates of each handler are contiguous: each update starts at or before the end of the previous one (B-01). Resume
// handlers that run with an update receive only this update. If an update is reverted, the engine calls its failed handlers again (decision 0007).
func (j objectCheck) checkUpdates(p Property, states []State, part func(State) State) {
	for _, c := range j.calls {
		if c.reason != kopf.ReasonUpdate || c.old == nil || !c.handler.wants(c.reason) || c.reverted || c.asked {
			continue
		}
		from := slices.Index(states, part(*c.old))
		if from < 0 || from > j.index(c.version) {
			j.violateLockedf(p, "%s: the object never had the old state %s", c, c.old)
		} else if last := j.lastFinal(c.handler, c.began); last != nil && from > j.index(last.version) {
			j.violateLockedf(p, "%s: the diff starts at %s, but the handler has last seen %s", c, c.old, last.state)
		}
	}
}

// checkLastState checks that every update handler has seen the last state (B-01).
func (j objectCheck) checkLastState(p Property, states []State) {
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
			j.violateLockedf(p, "%s has last seen %s, but %s is %s", handler.ID, c.state, j.name, j.states[len(states)-1])
		}
	}
}

// checkOwnEdits checks that each update contains a change by a user (B-13).
func (j objectCheck) checkOwnEdits() {
	for _, c := range j.calls {
		if c.reason != kopf.ReasonUpdate || c.old == nil || c.reverted || c.asked {
			continue
		}
		seen := j.index(c.version)
		from := max(0, slices.Index(j.states[:seen+1], *c.old))
		if !slices.ContainsFunc(j.states[from:seen+1], func(s State) bool { return s != *c.old }) {
			j.violateLockedf(OwnEdits, "%s: users have not changed the object since %s", c, c.old)
		}
	}
}

// checkFinal checks the final object: it must have the values of the users and no records.
func (j objectCheck) checkFinal(obj *unstructured.Unstructured) {
	is, last := stateOf(obj.Object), j.states[len(j.states)-1]
	switch {
	case is.withoutTags() != last.withoutTags():
		j.violateLockedf(KeepsEdits, "%s is %s, want %s", j.name, is, last)
	case is != last:
		j.violateLockedf(KeepsLists, "%s is %s, want %s", j.name, is, last)
	}
	if left := (view{obj}).leftovers(); len(left) > 0 {
		j.violateLockedf(Leftovers, "%s still has %s", j.name, left)
	}
}

// resumption is an object that one operator process must resume.
type resumption struct {
	process int
	uid     types.UID
}

// checkResumptions checks that the last operator process has resumed each existing object once (B-12).
func (w *world) checkResumptions(byObject map[types.UID][]*call) {
	for i := range w.plan.Handlers {
		handler := &w.plan.Handlers[i]
		if !handler.wants(kopf.ReasonResume) {
			continue
		}
		for uid, calls := range byObject {
			count := map[int]int{}
			for _, c := range calls {
				if c.handler == handler && c.final && c.reason == kopf.ReasonResume && !c.asked {
					count[c.process]++
				}
			}
			for process, n := range count {
				if n > 1 {
					w.violateLockedf(ResumesAgain, "%s has resumed %s %d times in process %d", handler.ID, w.historyOf(uid).name, n, process)
				}
			}
		}
		for r := range w.listed {
			called := slices.ContainsFunc(byObject[r.uid], func(c *call) bool {
				return c.handler == handler && c.final && c.process == r.process
			})
			if _, alive := w.alive[r.uid]; alive && r.process == w.process && !called {
				w.violateLockedf(Resumes, "%s has not resumed %s in process %d", handler.ID, w.historyOf(r.uid).name, r.process)
			}
		}
	}
}
