package engine

import (
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// A companion is what the worker and the background work of one object know together.
type backgroundState struct {
	mu      sync.Mutex
	essence string     // digest of the essence, as it was last seen or made by ourselves
	version string     // of the object with it
	edits   []*edit    // of the essence, which the baseline does not have yet
	writing int        // edits that are being written: what is seen meanwhile is not judged
	missed  bool       // something was seen meanwhile
	turn    sync.Mutex // held while an edit is being written: each is judged by what the others have made
	begun   []string   // timers that were started in this process
	failed  []string   // daemons and timers that have failed for good, as was told
}

// An edit is what background work changes in the essence of its object.
type edit struct {
	base    map[string]any // the JSON form of what it was made for
	doc     patch.MergePatch
	version string // of the object with it; empty while it is being written
	open    bool   // it is not known yet what becomes of it

	from, to string // digests of the essences that it was to lead from and to
}

// companion returns that of the object, a new one if there is none.
func (r *reconciliation) backgroundState() *backgroundState {
	known, ok := r.known.Worker.Background, r.known.Worker.Background != nil
	if !ok {
		known = &backgroundState{}
		r.known.Worker.Background = known
	}
	return known
}

// sees takes note of an essence, and reports whether somebody else has changed it. States that are older than our own
// last write tell nothing.
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

// made takes note that the worker has changed an essence.
func (a *backgroundState) noteWorkerWrite(from, to, version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.essence == from {
		a.essence, a.version = to, version
	}
}

// begin is for an edit that is about to be written; maybe anew, as it was fitted to another state, or the answer was lost.
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

// settle says what the server has made of an edit, and which essence the object has with it. It
// reports whether others have changed the essence, too, and whether to look at the object once more.
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

// abandon is for an edit that is not to be, and reports whether to look at the object once more.
func (a *backgroundState) cancelWrite(one *edit) (again bool) {
	a.drop(one)
	a.mu.Lock()
	defer a.mu.Unlock()
	one.open = false
	a.writing--
	again, a.missed = a.missed, false
	return again
}

// begins reports, once, that a timer is started for the first time.
func (a *backgroundState) isFirstStart(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Contains(a.begun, id) {
		return false
	}
	a.begun = append(a.begun, id)
	return true
}

// reports has it told how an attempt of a daemon or a timer has ended, by somebody who knows whether it was told of a failure before.
func (a *backgroundState) reportOutcome(id string, logPlan func(failed bool) (fails bool)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.Index(a.failed, id)
	switch fails := logPlan(at >= 0); {
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

// visible returns the edits that a state of the object contains, in order.
func (a *backgroundState) editsIn(obj client.Object, content map[string]any) (edits []*edit, values []cause.Edit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.edits {
		if one.version == "" && len(one.doc.Unapplied(content)) > 0 || one.version != "" && isOlderVersion(obj.GetResourceVersion(), one.version) {
			continue
		}
		edits, values = append(edits, one), append(values, cause.Edit{Base: one.base, Patch: one.doc})
	}
	return edits, values
}

// touch tells the timers of the object when its essence has changed, and not by ourselves: they wait for
// it to be idle again, and those that have failed for good have another chance (B-41).
func (e *Engine) touchTimers(r *reconciliation) {
	if r.backgroundState().noteEssence(essence.DigestOf(r.cause.Live), r.before.GetResourceVersion()) {
		e.supervisor.Touch(r.before.GetUID())
	}
}

// visibleEdits returns the edits by background work that the object contains. The baseline may lack them.
func (r *reconciliation) visibleEdits() (edits []*edit, values []cause.Edit) {
	if known, ok := r.known.Worker.Background, r.known.Worker.Background != nil; ok {
		return known.editsIn(r.before, r.content)
	}
	return nil, nil
}

// dropEdits forgets edits that the stored baseline contains.
func (r *reconciliation) dropEdits(edits []*edit) {
	if known, ok := r.known.Worker.Background, r.known.Worker.Background != nil; ok && len(edits) > 0 {
		known.drop(edits...)
	}
}
