package scenario

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// precision is that of the times in records.
const precision = time.Microsecond

// checkEntry holds a call that begins against what is stored on the server at this moment. The lock is held.
func (w *world) checkEntry(c *call) {
	v := w.view(c.uid)
	c.turned = v.turned()
	if c.handler.Optional && c.reason == kopf.ReasonDelete && !v.held() {
		return // a farewell: nothing is stored of it
	}
	if v.released() {
		w.blamef(NothingAfter, "%s: the object is released already", c)
		return
	}
	if w.removed[c.uid] {
		w.checkRemoved(c)
		return
	}
	w.checkBaseline(c, v)
	record, stored := v.record(c.handler.ID)
	own := record.Purpose == string(c.reason) || !c.handler.wants(c.reason)
	void := c.reason == kopf.ReasonDelete && record.Purpose != string(c.reason)
	switch {
	case void && !record.Finished() && c.attempt != record.Retries:
		w.blamef(DelaysOutlive, "%s: it is recorded that there were %d attempts", c, record.Retries)
		return
	case !stored && c.attempt != 0:
		w.blamef(NeverStale, "%s: there is no record of it", c)
	case stored && record.Finished() && own:
		w.blamef(NeverTwice, "%s: it is recorded as done", c)
	case stored && !record.Finished() && c.attempt != record.Retries:
		w.blamef(NeverStale, "%s: it is recorded that there were %d attempts", c, record.Retries)
	}
	if stored && !record.Finished() && record.Delayed.After(time.Now()) {
		w.blamef(KeepsBackoff, "%s: it is recorded that it is delayed for another %s", c, time.Until(record.Delayed))
	}
	if last := w.lastOf(c); last != nil && !last.final && c.start.Sub(last.end) < last.delay-precision {
		property := KeepsBackoff
		if c.attempt == 0 {
			property = DelaysOutlive // it has begun anew
		}
		w.blamef(property, "%s: only %s after an attempt that wanted %s", c, c.start.Sub(last.end), last.delay)
	}
}

// checkRemoved holds a call against the last one, if the object does not exist any more: the operator may not know
// that yet, but must not begin the same attempt again.
func (w *world) checkRemoved(c *call) {
	if last := w.lastOf(c); last != nil && !last.final && last.attempt == c.attempt {
		w.blamef(NothingAfter, "%s: it is made again for an object that is gone", c)
	}
}

// checkBaseline holds the cause of a call against the stored baseline.
func (w *world) checkBaseline(c *call, v view) {
	stored, known := v.baseline()
	switch c.reason { //nolint:exhaustive // there are none of the others
	case kopf.ReasonCreate:
		if known {
			w.blamef(NeverStale, "%s: its creation is handled already", c)
		}
	case kopf.ReasonUpdate:
		if !known || c.old == nil || c.old.withoutTags() != stored.withoutTags() {
			w.blamef(NeverStale, "%s: it is told that %v was handled last, stored is %v", c, c.old, stored)
		}
	case kopf.ReasonDelete:
		if !v.held() {
			w.blamef(NeverStale, "%s: the object is released already", c)
		}
	case kopf.ReasonResume:
		if !known {
			w.blamef(NeverStale, "%s: its creation is not handled yet", c)
		}
	case kopf.ReasonEvent, kopf.ReasonReconcile:
		// Not among the handlers of scenarios.
	}
}

// lastOf is the call of the same handler for the same object and reason before this one, by the same life of the
// operator. What an attempt for another reason wanted is to be found in its record; if that could not be written
// before a deletion, it is void (0002 of the decisions).
func (w *world) lastOf(c *call) *call {
	for _, other := range slices.Backward(w.calls) {
		if other.uid == c.uid && other.handler == c.handler && other.life == c.life && other.reason == c.reason && other.ended != 0 {
			return other
		}
	}
	return nil
}

func (h *Handler) wants(reason kopf.Reason) bool { return slices.Contains(h.Reasons, reason) }

// checkRelease makes sure that a deletion was handled, when the finalizer goes. The lock is held.
func (w *world) checkRelease(obj *unstructured.Unstructured) {
	for i := range w.plan.Handlers {
		h := &w.plan.Handlers[i]
		done := func(c *call) bool {
			return c.uid == obj.GetUID() && c.handler == h && c.reason == kopf.ReasonDelete && c.final
		}
		if h.wants(kopf.ReasonDelete) && !h.Optional && !slices.ContainsFunc(w.calls, done) {
			w.blamef(HoldsDeletion, "%s is released before %s was done", obj.GetName(), h.ID)
		}
	}
}
