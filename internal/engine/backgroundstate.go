package engine

import (
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// backgroundState is what the worker, the daemons and the timers of one object share. Its methods are safe for concurrent use.
type backgroundState struct {
	mu      sync.Mutex
	essence string     // the digest of the newest known essence
	version string     // the resource version of that essence
	edits   []*edit    // changes of the essence that the baseline lacks
	writing int        // the number of edits that are being written; observed states are not compared in the meantime
	missed  bool       // a state was observed in the meantime
	turn    sync.Mutex // held while an edit is being written, so that edits are computed one after the other
	begun   []string   // the timers that were started in this process
	failed  []string   // the daemons and timers whose permanent failure was reported

	panicChanges []panicChange // the worker has not reported them
}

// edit is a change of the essence by a daemon or a timer.
type edit struct {
	base    map[string]any // the JSON form of the object for which it was computed
	doc     patch.MergePatch
	version string // the resource version with the edit; empty while it is being written
	open    bool   // the outcome of the write is not known

	from, to string // the digests of the essences before and after the edit
}

// backgroundState returns the shared state of the object, and creates it if there is none.
func (r *reconciliation) backgroundState() *backgroundState {
	known := r.known.Worker.Background
	if known == nil {
		known = &backgroundState{}
		r.known.Worker.Background = known
	}
	return known
}

// noteEssence records the essence of an observed state, and reports whether another client has changed it. It ignores states that are older than
// our own last write.
func (a *backgroundState) noteEssence(digest, version string) (changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.writing > 0 {
		a.missed = true
		return false
	}
	if a.version != "" && isOlderVersion(version, a.version) {
		return false
	}
	changed = a.essence != "" && a.essence != digest
	a.essence, a.version = digest, version
	return changed
}

// noteWorkerWrite records that the worker has changed the essence.
func (a *backgroundState) noteWorkerWrite(from, to, version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.essence == from {
		a.essence, a.version = to, version
	}
}

// beginWrite records an edit before it is written. It is called again if the edit is rebased, or if its response was lost.
func (a *backgroundState) beginWrite(one *edit, base map[string]any, doc patch.MergePatch, from, to string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one.base, one.doc = base, doc
	if !one.open {
		one.open, one.from, one.to = true, from, to
		a.edits = append(a.edits, one)
		a.writing++
	}
}

// endWrite records the edit as the API server has stored it, and the essence of the object after it. It reports whether another client has changed
// the essence, too, and whether the object must be reconciled again.
func (a *backgroundState) endWrite(one *edit, written edit, is string) (changed, again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one.doc, one.version, one.open = written.doc, written.version, false
	a.writing--
	changed = a.essence != one.from || is != one.to
	a.essence, a.version = is, written.version
	again, a.missed = a.missed, false
	return changed, again
}

// cancelWrite removes an edit that is not written, and reports whether the object must be reconciled again.
func (a *backgroundState) cancelWrite(one *edit) (again bool) {
	a.drop(one)
	a.mu.Lock()
	defer a.mu.Unlock()
	one.open = false
	a.writing--
	again, a.missed = a.missed, false
	return again
}

// isFirstStart returns true for the first start of a timer in this process.
func (a *backgroundState) isFirstStart(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Contains(a.begun, id) {
		return false
	}
	a.begun = append(a.begun, id)
	return true
}

// reportOutcome calls report with the last reported state of a daemon or a timer, and records the state that report returns.
func (a *backgroundState) reportOutcome(id string, report func(failed bool) (fails bool)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.Index(a.failed, id)
	switch fails := report(at >= 0); {
	case fails && at < 0:
		a.failed = append(a.failed, id)
	case !fails && at >= 0:
		a.failed = slices.Delete(a.failed, at, at+1)
	}
}

func (a *backgroundState) drop(some ...*edit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.edits = slices.DeleteFunc(a.edits, func(one *edit) bool { return slices.Contains(some, one) })
}

// editsIn returns the edits that a state of the object contains, in order.
func (a *backgroundState) editsIn(obj client.Object, content map[string]any) (edits []*edit, values []cause.BackgroundEdit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.edits {
		if one.version == "" && len(one.doc.Unapplied(content)) > 0 || one.version != "" && isOlderVersion(obj.GetResourceVersion(), one.version) {
			continue
		}
		edits, values = append(edits, one), append(values, cause.BackgroundEdit{Base: one.base, Patch: one.doc})
	}
	return edits, values
}

// visibleEdits returns the edits by daemons and timers that the object contains. The baseline may lack them.
func (r *reconciliation) visibleEdits() (edits []*edit, values []cause.BackgroundEdit) {
	if known := r.known.Worker.Background; known != nil {
		return known.editsIn(r.before, r.content)
	}
	return nil, nil
}

// forgetStoredEdits removes edits that the stored baseline contains.
func (r *reconciliation) forgetStoredEdits(edits []*edit) {
	if known := r.known.Worker.Background; known != nil && len(edits) > 0 {
		known.drop(edits...)
	}
}
