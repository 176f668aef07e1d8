package background

import (
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// State is what the worker, the daemons and the timers of one object share. Its methods are safe for concurrent use.
type State struct {
	mu      sync.Mutex
	essence string            // digest of the newest known essence
	version string            // the resource version of that essence
	edits   []*Edit           // essence changes that the baseline doesn't have yet
	writing int               // how many edits are being written; while it is above 0, observed states are not compared
	missed  bool              // a state was observed while an edit was being written
	turn    sync.Mutex        // held while an edit is being written, because edits must be computed one after the other
	begun   []string          // timers that were started in this process
	failed  []string          // daemons and timers whose permanent failure was reported
	raised  patch.Generations // the generations that were superseded only by writes of daemons and timers
}

// Edit is an essence change by a daemon or timer.
type Edit struct {
	base    map[string]any // JSON form of the object on which doc is based
	doc     patch.MergePatch
	version string // resource version with the edit; empty while it is being written
	open    bool   // it is unknown whether the write has succeeded

	from, to string // digests of the essence before and after the edit
}

// noteEssence records the essence of an observed state, and reports whether another client has changed it. States older than the
// recorded one are ignored. While an edit is being written, noteEssence only remembers that it has missed a state.
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

// NoteWorkerWrite records an essence change by the worker.
func (a *State) NoteWorkerWrite(from, to, version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.essence == from {
		a.essence, a.version = to, version
	}
}

// noteRaised records that only a daemon's or timer's write has raised the generation.
func (a *State) noteRaised(raised patch.Generations) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.raised = a.raised.Extend(raised)
}

// Raised returns the generations that were superseded only by writes of daemons and timers. The worker then updates the observed
// generations in the status.
func (a *State) Raised() patch.Generations {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.raised
}

// DropRaised forgets the generations, unless later ones were added. Call it once the status is up to date.
func (a *State) DropRaised(ended patch.Generations) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.raised.To == ended.To {
		a.raised = patch.Generations{}
	}
}

// beginWrite records an edit before it is written. It must be called again if the edit is rebased or the response was lost.
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

// endWrite records an edit as the API server has stored it. digest is the essence's digest after the write. It reports whether another
// client has changed the essence as well, and whether the object must be reconciled again.
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

// cancelWrite drops an edit that couldn't be written. It reports whether the object must be reconciled again.
func (a *State) cancelWrite(one *Edit) (again bool) {
	a.Drop(one)
	a.mu.Lock()
	defer a.mu.Unlock()
	one.open = false
	a.writing--
	again, a.missed = a.missed, false
	return again
}

// isFirstStart records that a timer is started, and reports whether it is the first time in this process.
func (a *State) isFirstStart(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Contains(a.begun, id) {
		return false
	}
	a.begun = append(a.begun, id)
	return true
}

// reportOutcome passes a daemon's or timer's last reported state to report, and records the state that report returns.
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

// Drop removes edits that are now part of the stored baseline or couldn't be written.
func (a *State) Drop(some ...*Edit) {
	if len(some) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.edits = slices.DeleteFunc(a.edits, func(one *Edit) bool { return slices.Contains(some, one) })
}

// EditsIn returns the edits that a state of the object includes, in order.
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
