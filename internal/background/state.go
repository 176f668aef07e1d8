package background

import (
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// State is the state that the worker, the daemons and the timers of one object share. Its methods are safe for concurrent use.
type State struct {
	mu      sync.Mutex
	essence string            // the digest of the newest known essence
	version string            // the resource version of that essence
	edits   []*Edit           // changes of the essence that the baseline lacks
	writing int               // the number of edits that are being written; observed states are not compared in the meantime
	missed  bool              // a state was observed while an edit was being written
	turn    sync.Mutex        // held while an edit is being written, so that edits are computed one after the other
	begun   []string          // the timers that were started in this process
	failed  []string          // the daemons and timers whose permanent failure was reported
	raised  patch.Generations // the generations that only daemons and timers have ended
}

// Edit is a change of the essence by a daemon or a timer.
type Edit struct {
	base    map[string]any // the JSON form of the object on which doc is based
	doc     patch.MergePatch
	version string // the resource version with the edit; empty while it is being written
	open    bool   // the outcome of the write is not known

	from, to string // the digests of the essences before and after the edit
}

// noteEssence records the essence of an observed state, and reports whether another client has changed it. It ignores states that are older than the
// recorded one. While an edit is being written, it only records that a state was missed.
func (a *State) noteEssence(digest, version string) (changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.writing > 0 {
		a.missed = true
		return false
	}
	if a.version != "" && objectstate.IsOlderVersion(version, a.version) {
		return false
	}
	changed = a.essence != "" && a.essence != digest
	a.essence, a.version = digest, version
	return changed
}

// NoteWorkerWrite records that the worker has changed the essence.
func (a *State) NoteWorkerWrite(from, to, version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.essence == from {
		a.essence, a.version = to, version
	}
}

// noteRaised records that a write of a daemon or a timer alone has raised the generation.
func (a *State) noteRaised(raised patch.Generations) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.raised = a.raised.Extend(raised)
}

// Raised returns the generations that only daemons and timers have ended. The worker then updates the status.
func (a *State) Raised() patch.Generations {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.raised
}

// DropRaised is called when the status is up to date.
func (a *State) DropRaised(ended patch.Generations) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.raised.To == ended.To {
		a.raised = patch.Generations{}
	}
}

// beginWrite records an edit before it is written. The caller calls beginWrite again if it rebases the edit, or if the response was lost.
func (a *State) beginWrite(one *Edit, base map[string]any, doc patch.MergePatch, from, to string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one.base, one.doc = base, doc
	if !one.open {
		one.open, one.from, one.to = true, from, to
		a.edits = append(a.edits, one)
		a.writing++
	}
}

// endWrite records the edit as the API server has stored it. The parameter digest is the digest of the essence after the write. endWrite
// reports whether another client has also changed the essence, and whether the object must be reconciled again.
func (a *State) endWrite(one *Edit, written Edit, digest string) (changed, again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one.doc, one.version, one.open = written.doc, written.version, false
	a.writing--
	changed = a.essence != one.from || digest != one.to
	a.essence, a.version = digest, written.version
	again, a.missed = a.missed, false
	return changed, again
}

// cancelWrite removes an edit that could not be written, and reports whether the object must be reconciled again.
func (a *State) cancelWrite(one *Edit) (again bool) {
	a.Drop(one)
	a.mu.Lock()
	defer a.mu.Unlock()
	one.open = false
	a.writing--
	again, a.missed = a.missed, false
	return again
}

// isFirstStart returns true for the first start of a timer in this process.
func (a *State) isFirstStart(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Contains(a.begun, id) {
		return false
	}
	a.begun = append(a.begun, id)
	return true
}

// reportOutcome calls report with the last reported state of a daemon or a timer, and records the state that report returns.
func (a *State) reportOutcome(id string, report func(failed bool) (fails bool)) {
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

// Drop removes edits that the stored baseline contains, or that could not be written.
func (a *State) Drop(some ...*Edit) {
	if len(some) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.edits = slices.DeleteFunc(a.edits, func(one *Edit) bool { return slices.Contains(some, one) })
}

// EditsIn returns the edits that a state of the object contains, in order.
func (a *State) EditsIn(obj client.Object, content map[string]any) (edits []*Edit, values []cause.BackgroundEdit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.edits {
		if one.version == "" && len(one.doc.Unapplied(content)) > 0 || one.version != "" && objectstate.IsOlderVersion(obj.GetResourceVersion(), one.version) {
			continue
		}
		edits, values = append(edits, one), append(values, cause.BackgroundEdit{Base: one.base, Patch: one.doc})
	}
	return edits, values
}
