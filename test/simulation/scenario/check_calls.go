package scenario

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// precision is the precision of times in records.
const precision = time.Microsecond

// checkEntry compares a call at its start with the stored state on the server. The caller holds the lock.
func (w *world) checkEntry(c *call) {
	v := w.view(c.uid)
	c.reverted, c.asked = v.reverted(), c.request != "" && !w.answered[ask{c.uid, c.handler.ID, c.request}]
	if c.handler.Optional && c.reason == kopf.ReasonDelete && !v.hasFinalizer() {
		return // an optional delete handler has no stored state
	}
	if v.isReleased() {
		w.violateLockedf(NothingAfter, "%s: the finalizer is already removed", c)
		return
	}
	if w.removed[c.uid] {
		w.checkRemoved(c)
		return
	}
	if c.asked {
		return // the request takes back the stored outcomes and delays
	}
	w.checkBaseline(c, v)
	record, stored := v.record(c.handler.ID)
	// A resume handler is called in each process, whatever an earlier one has stored.
	resumes := c.handler.wants(kopf.ReasonResume) && c.reason != kopf.ReasonDelete && !slices.ContainsFunc(w.calls, func(other *call) bool {
		return other.uid == c.uid && other.handler == c.handler && other.process == c.process && other.final
	})
	own := record.Purpose == string(c.reason) || !c.handler.wants(c.reason)
	void := c.reason == kopf.ReasonDelete && record.Purpose != string(c.reason)
	switch {
	case void && !record.Finished() && c.attempt != record.Retries:
		w.violateLockedf(DelaysOutlive, "%s: the record has %d attempts", c, record.Retries)
		return
	case !stored && c.attempt != 0:
		w.violateLockedf(NeverStale, "%s: the record is missing", c)
	case stored && record.Finished() && own && !resumes:
		w.violateLockedf(NeverTwice, "%s: the stored record is final", c)
	case stored && !record.Finished() && c.attempt != record.Retries:
		w.violateLockedf(NeverStale, "%s: the record has %d attempts", c, record.Retries)
	}
	if stored && !record.Finished() && record.Delayed.After(time.Now()) {
		w.violateLockedf(KeepsBackoff, "%s: the stored delay ends in %s", c, time.Until(record.Delayed))
	}
	if last := w.lastOf(c); last != nil && !last.final && c.start.Sub(last.end) < last.delay-precision {
		property := KeepsBackoff
		if c.attempt == 0 {
			property = DelaysOutlive // the handler has started again
		}
		w.violateLockedf(property, "%s: started %s after an attempt with a delay of %s", c, c.start.Sub(last.end), last.delay)
	}
}

// checkRemoved compares a call with the previous one if the object does not exist. The operator may not know the
// deletion yet but must not repeat an attempt.
func (w *world) checkRemoved(c *call) {
	if last := w.lastOf(c); last != nil && !last.final && last.attempt == c.attempt {
		w.violateLockedf(NothingAfter, "%s: repeats an attempt for a deleted object", c)
	}
}

// checkBaseline compares the cause of a call with the stored baseline.
func (w *world) checkBaseline(c *call, v view) {
	stored, known := v.baseline()
	switch c.reason { //nolint:exhaustive // scenarios have no other reasons
	case kopf.ReasonCreate:
		if known {
			w.violateLockedf(NeverStale, "%s: the creation is already handled", c)
		}
	case kopf.ReasonUpdate:
		if !known || c.old == nil || c.old.withoutTags() != stored.withoutTags() {
			w.violateLockedf(NeverStale, "%s: old state = %v, want the stored state %v", c, c.old, stored)
		}
	case kopf.ReasonDelete:
		if !v.hasFinalizer() {
			w.violateLockedf(NeverStale, "%s: the finalizer is already removed", c)
		}
	case kopf.ReasonResume:
		if !known {
			w.violateLockedf(NeverStale, "%s: the creation is not handled yet", c)
		}
	case kopf.ReasonEvent, kopf.ReasonReconcile:
		// Scenarios have no handlers for other reasons.
	}
}

// lastOf returns the previous call of the same handler for the same object and reason by the same operator process. Attempts for other
// reasons do not count, because the engine discards records that could not be written before a deletion (decision 0002).
func (w *world) lastOf(c *call) *call {
	for _, other := range slices.Backward(w.calls) {
		if other.uid == c.uid && other.handler == c.handler && other.process == c.process && other.reason == c.reason && other.ended != 0 {
			return other
		}
	}
	return nil
}

func (h *Handler) wants(reason kopf.Reason) bool { return slices.Contains(h.Reasons, reason) }

// checkRelease checks that the deletion was handled when the finalizer is removed. The caller holds the lock.
func (w *world) checkRelease(obj *unstructured.Unstructured) {
	for i := range w.plan.Handlers {
		h := &w.plan.Handlers[i]
		done := func(c *call) bool {
			return c.uid == obj.GetUID() && c.handler == h && c.reason == kopf.ReasonDelete && c.final
		}
		if h.wants(kopf.ReasonDelete) && !h.Optional && !slices.ContainsFunc(w.calls, done) {
			w.violateLockedf(HoldsDeletion, "the finalizer of %s is removed before %s is done", obj.GetName(), h.ID)
		}
	}
}
