package engine

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/match"
)

// skipsOwnEvent reports whether this reconcile is due to nothing but the event of the write that ended a cycle. There is nothing to do for
// such an event, see [Engine.expectOwnEvent]. It is skipped once: any later reconcile looks at the object again.
func skipsOwnEvent(m *objectState, obj client.Object) bool {
	expected := m.Worker.SettledVersion
	m.Worker.SettledVersion = ""
	if expected == "" || expected != obj.GetResourceVersion() || m.Worker.PendingWrite != nil || m.Worker.Overlay != nil {
		return false
	}
	m.AwaitedVersion = "" // the cache shows it
	return true
}

// expectOwnEvent is called at the end of a reconcile. If that has written the end of a cycle, and a reconcile of the written object would
// find nothing to do, the event of the write is skipped.
func (e *Engine) expectOwnEvent(r *reconciliation, result reconcile.Result) {
	m, version := r.known, r.before.GetResourceVersion()
	if !r.isFinished() || result != (reconcile.Result{}) || m.AwaitedVersion != version || r.reportRejected || m.Worker.Overlay != nil ||
		len(e.ReconcileHandlers.IDs())+len(e.BackgroundHandlers.IDs()) > 0 {
		return
	}
	if r.cause.OutdatedBaseline || r.cause.StalePin || e.Pin.Fetch(r.before) != nil || r.state.HasStale(now()) {
		return // something is left to remove or to store
	}
	// Other clients may have changed the object between the read and the write.
	stored := e.Baseline.Fetch(r.before)
	if r.before.GetDeletionTimestamp() != nil || e.hasFinalizer(r.before) != r.cause.Facts.HasFinalizer ||
		stored == nil || m.Worker.Baselines.IsReplaced(stored) {
		return
	}
	// The filters decide on the finalizer, and a handler may have changed what they look at.
	after := match.Input{Object: r.content, HasCause: true, Old: r.cause.Live, New: r.cause.Live}
	for _, id := range e.Handlers.IDs() {
		handler, _ := e.Handlers.Get(id)
		if len(handler.When) > 0 {
			return // a function may answer differently at any time
		}
		if matches, _ := handler.MatchObject(after); matches != slices.Contains(r.matching, id) {
			return
		}
	}
	m.Worker.SettledVersion = version
}
