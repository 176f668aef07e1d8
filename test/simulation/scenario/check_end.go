package scenario

import (
	"slices"

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
			w.blame(Settles, "an object that nobody has made: %s", uid)
			continue
		}
		w.checkBaselines(h, byObject[uid])
		w.checkCalls(h, byObject[uid])
		if state, alive := w.alive[uid]; alive {
			w.checkLast(h, byObject[uid], state)
		}
	}
	w.checkResumptions(byObject)
}

// checkBaselines makes sure that what was stored as handled was seen by all that it concerns: when it is
// stored, each handler for the cause has finished with that state, or a later one (B-01).
func (w *world) checkBaselines(h *history, calls []*call) {
	reason, at := kopf.ReasonCreate, 0
	for _, b := range h.baselines {
		next := slices.Index(h.states[at:], b.state)
		if next < 0 {
			w.blame(NeverLost, "the baseline of %s becomes %s, which it never was after %s", h.name, b.state, h.states[at])
			return
		}
		next += at
		if next == at && reason == kopf.ReasonUpdate {
			continue // only what handlers have changed themselves was added
		}
		for i := range w.plan.Handlers {
			handler := &w.plan.Handlers[i]
			if !handler.wants(reason) {
				continue
			}
			if last := lastFinal(calls, handler, b.moment); last == nil {
				w.blame(NeverLost, "the baseline of %s becomes %s, but %s was never done", h.name, b.state, handler.ID)
			} else if seen := h.index(last.version); seen < next {
				w.blame(NeverLost, "the baseline of %s becomes %s, but %s has only seen %s", h.name, b.state, handler.ID, h.states[seen])
			}
		}
		reason, at = kopf.ReasonUpdate, next
	}
}

// lastFinal is the last call of a handler that was done with it, before a moment.
func lastFinal(calls []*call, h *Handler, before int) *call {
	for _, c := range slices.Backward(calls) {
		if c.handler == h && c.final && c.ended < before {
			return c
		}
	}
	return nil
}

// checkCalls makes sure that the updates of each handler join: the next begins where the last has ended, or
// before (B-01); and that somebody else than the handlers has changed something (B-13).
func (w *world) checkCalls(h *history, calls []*call) {
	for _, c := range calls {
		if c.reason != kopf.ReasonUpdate || c.old == nil {
			continue
		}
		seen := h.index(c.version)
		from := slices.Index(h.states, *c.old)
		if from < 0 || from > seen {
			w.blame(NeverLost, "%s: it is told that the object was %s, which it never was", c, c.old)
			continue
		}
		if !slices.ContainsFunc(h.states[from:seen+1], func(s State) bool { return s != *c.old }) {
			w.blame(OwnEdits, "%s: nobody has changed anything since %s", c, c.old)
		}
		if last := lastFinal(calls, c.handler, c.began); last != nil && from > h.index(last.version) {
			w.blame(NeverLost, "%s: it is told what has changed since %s, but has only seen %s", c, c.old, last.state)
		}
	}
}

// checkLast makes sure that everybody has seen the last state of an object that is still there (B-01), and
// that it is what users have made of it.
func (w *world) checkLast(h *history, calls []*call, is State) {
	last := h.states[len(h.states)-1]
	if is != last {
		w.blame(KeepsEdits, "%s is %s, and should be %s", h.name, is, last)
	}
	for i := range w.plan.Handlers {
		handler := &w.plan.Handlers[i]
		updated := slices.ContainsFunc(calls, func(c *call) bool {
			return c.handler == handler && c.reason == kopf.ReasonUpdate && c.final
		})
		if c := lastFinal(calls, handler, w.moments+1); updated && c.state != last {
			w.blame(NeverLost, "%s has seen %s at last, but %s is %s", handler.ID, c.state, h.name, last)
		}
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
					w.blame(Resumes, "%s has resumed %s %d times in life %d", handler.ID, w.of(uid).name, n, life)
				}
			}
		}
		for r := range w.listed {
			called := slices.ContainsFunc(byObject[r.uid], func(c *call) bool {
				return c.handler == handler && c.final && c.life == r.life
			})
			if _, alive := w.alive[r.uid]; alive && r.life == w.life && !called {
				w.blame(Resumes, "%s has not resumed %s in life %d", handler.ID, w.of(r.uid).name, r.life)
			}
		}
	}
}
