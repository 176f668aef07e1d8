package engine

import (
	"maps"
	"reflect"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/kopf-runtime/kopf-runtime/internal/annotations"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// restRule says which objects of the first list need no reconcile, because it would do nothing. It decides only clear cases, and without
// converting the object, which is most of the work of such a reconcile. The zero value selects no objects.
type restRule struct {
	enabled bool
	// finalizer is true if every object needs the finalizer, and false if none does.
	finalizer bool
	// keys are the annotations that the engine keeps on an object at rest, besides its stamp.
	keys []string
}

// newRestRule returns the rule for the kind. It selects no objects if anything but the cause could require a reconcile.
func (e *Engine) newRestRule() (s restRule) {
	isFiltered := func(h *invoke.Handler) bool { return len(h.When) > 0 || !reflect.ValueOf(h.Filters).IsZero() }
	needsFinalizer := func(h *invoke.Handler) bool { return h.IsMandatoryDelete() }
	callsAtStart := func(h *invoke.Handler) bool { return h.AnyReason || h.Resumes() || h.RetriesOnRelatedChange }
	switch {
	case e.lean == nil, len(e.revisions.declared) > 0, e.rollsOut(), e.Scope != nil, e.Shard != nil, e.traits.reportsConditions, len(e.EventHandlers.IDs()) > 0,
		len(e.ReconcileHandlers.IDs())+len(e.BackgroundHandlers.IDs()) > 0, e.Handlers.Any(callsAtStart):
		return restRule{}
	case e.Handlers.Any(func(h *invoke.Handler) bool { return needsFinalizer(h) && !isFiltered(h) }):
		s.finalizer = true
	case e.Handlers.Any(needsFinalizer):
		return restRule{}
	}
	empty := e.New()
	e.Baseline.Store(empty, []byte("{}"))
	s.enabled, s.keys = true, slices.Collect(maps.Keys(empty.GetAnnotations()))
	return s
}

// isAtRest reports whether a reconcile of an object of the first list would do nothing. It then records what the reconcile would have
// recorded.
func (e *Engine) isAtRest(obj client.Object) bool {
	s := e.restRule
	if !s.enabled || e.paused(obj.GetNamespace()) || !e.lean.IsShrunk(obj) || obj.GetDeletionTimestamp() != nil || e.hasFinalizer(obj) != s.finalizer ||
		!progress.UsesOnlyAnnotations(e.Store, obj) {
		return false
	}
	stamp := e.Stamps.Key(obj.GetUID())
	all := obj.GetAnnotations()
	for key := range all {
		if annotations.IsManaged(key, all) && key != stamp && !slices.Contains(s.keys, key) {
			return false // a record, a pin, a request, or what another operator needs
		}
	}
	known := e.states.GetOrCreate(obj.GetUID())
	if !known.TryLock() {
		return false
	}
	defer known.Unlock()
	if known.Worker.Details != nil || known.AwaitedVersion() != "" {
		return false // the process has already handled an object with this uid
	}
	known.Worker.Handled, known.Worker.SeenAlive = true, true
	e.skipped.Set(obj.GetUID(), struct{}{})
	return true
}

// ConfirmAtRest is called after the first list. If the cache has reached the epoch, it contains the objects that were not reconciled as they
// were at the start of the process or later. Otherwise, and during a pause, they are reconciled after all.
func (e *Engine) ConfirmAtRest() {
	for _, uid := range e.skipped.Keys() {
		e.skipped.Take(uid)
		known, obj := e.states.Get(uid), e.states.Newest(uid)
		if known == nil || obj == nil {
			continue // it is deleted
		}
		pauses, passed := e.pause.count.Load(), e.epoch.IsPassed(obj.GetNamespace())
		key := client.ObjectKeyFromObject(obj)
		if passed && e.epoch != nil {
			stored := e.epoch.Stored(key)
			passed = stored != nil && stored.GetUID() == uid
		}
		if !passed || e.paused(obj.GetNamespace()) || !known.TryLock() {
			e.states.Enqueue(handler.LowPriority, key)
			continue
		}
		known.Worker.SeenSinceStart, known.Worker.PausesAtReconcile = true, pauses
		known.Unlock()
	}
}
