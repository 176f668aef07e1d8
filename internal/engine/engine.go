package engine

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/eventrecorder"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// An Engine handles the objects of one kind: it is a reconciler, and this file is its table of contents.
type Engine struct {
	Settings
	Kind
	states        *objectStore
	writer        *patch.Writer
	detector      *cause.Detector
	builder       *commit.Builder
	health        health
	indexFailures indexFailures
	eventLimiter  eventrecorder.Limiter
	loggedDrops   dropped // fields that were logged

	supervisor    *daemons.Supervisor // of daemons and timers
	enqueuer      enqueuer
	promoter      promoter
	tombstones    tombstones
	epoch         *epoch // nil: each state of the cache is trusted
	pausedKeys    pausedKeys
	pauses        atomic.Int64 // that have begun, anywhere
	ended         atomic.Bool  // the operator has ended: nothing is written any more
	hasPredicates atomic.Bool  // predicates may keep objects from being looked at
}

// New returns the engine of a kind.
func New(settings Settings, kind Kind) *Engine {
	settings.Pin = progress.Pin(settings.Baseline, settings.Store)
	lastHandled := essence.WithDigestFallback(settings.Baseline, settings.Store)
	settings.Baseline = lastHandled
	e := &Engine{Settings: settings, Kind: kind, states: objectstate.New[objectMemory](objectstate.Options{
		RecordEvents: len(kind.EventHandlers.IDs()) > 0,
		TrackDirty:   len(kind.ReconcileHandlers.IDs()) > 0,

		ReadBaseline: settings.Baseline.Fetch,
	})}
	e.eventLimiter.AggregatesSeries = settings.AggregatesEvents
	e.supervisor = daemons.New(daemons.Options{
		OnEnd:       func(key daemons.Key) { e.enqueue(key.UID) },
		Kind:        kind.GVK.Kind,
		GracePeriod: gracePeriod,
	})
	e.detector = e.newDetector()
	e.builder = &commit.Builder{
		Detector: e.detector, Store: e.Store, Baseline: lastHandled, Pin: e.Pin, HandlerIDs: e.Handlers.IDs(), Finalizer: e.Finalizer, HasStatus: e.HasStatus,
	}
	e.writer = &patch.Writer{
		Client: e.Client, APIReader: e.APIReader, NewObject: e.New, GVK: e.GVK, HasStatus: e.HasStatus,
		OnConflict: metrics.WriteConflicts.WithLabelValues(e.Name).Inc,
	}
	for _, id := range e.Indexes.IDs() {
		index, _ := e.Indexes.Get(id)
		index.Clear() // an operator before this one may have filled it
	}
	return e
}

// EventHandler is to be fed by the informer of the kind.
func (e *Engine) EventHandler(predicates ...predicate.Predicate) handler.EventHandler {
	e.hasPredicates.Store(len(predicates) > 0)
	return e.states.EventHandler(observer{e}, predicates...)
}

// Relatives is to be fed by the informers of kinds that belong to the objects of this one.
func (e *Engine) OwnedEventHandler(of func(client.Object) []types.NamespacedName, predicates ...predicate.Predicate) handler.EventHandler {
	return e.states.EnqueueOwners(of, predicates...)
}

// Memos are what the handlers remember of an object; empty ones, which are not kept, if it is not known here.
func (e *Engine) Memos(uid types.UID) *objectstate.Memos { return e.states.Memos(uid) }

// Reconcile takes one object through one cycle. The request only wakes: what happened is concluded
// from the object, and what is due from its records.
func (e *Engine) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	defer e.trackReconcile(req.NamespacedName)()
	e.callEventHandlers(ctx, req.NamespacedName)
	// Nothing else during a pause.
	if e.deferIfPaused(ctx, req.NamespacedName) {
		return reconcile.Result{}, nil
	}
	// The objects of this name that exist no more.
	vanished := e.handleDeleted(ctx, req.NamespacedName)
	result, err := e.reconcile(ctx, req)
	again, writeErr := classifyError(err)
	e.health.setRetry(req.NamespacedName, again > 0, err)
	if again > 0 || writeErr != nil {
		result, err = reconcile.Result{RequeueAfter: again, Priority: new(retrying)}, writeErr
	}
	if vanished > 0 && err == nil && (result.RequeueAfter == 0 || vanished < result.RequeueAfter) {
		result = reconcile.Result{RequeueAfter: vanished, Priority: new(retrying)}
	}
	if result.RequeueAfter > 0 {
		e.states.MarkQueuedAt(req.NamespacedName, time.Now().Add(result.RequeueAfter))
	}
	return result, err
}

func (e *Engine) reconcile(ctx context.Context, req reconcile.Request) (none reconcile.Result, err error) {
	// The object, from the cache.
	r, err := e.observe(ctx, req.NamespacedName)
	if r == nil || err != nil {
		return none, err
	}
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("uid", string(r.before.GetUID())))
	ctx = objectstate.ContextWithMemos(ctx, e.states.Memos(r.before.GetUID()))
	// Not on less than we wrote ourselves.
	if wait, err := e.awaitFreshCache(ctx, r); wait > 0 || err != nil {
		return requeue(wait), err
	}
	if err := e.evaluate(ctx, r); err != nil {
		return none, err
	}
	// Nor on less than an earlier process wrote.
	if wait, err := e.verifyAgainstEpoch(ctx, r); wait > 0 || err != nil {
		return requeue(wait), err
	}
	if wait, err := e.ensureFinalizer(ctx, r); wait > 0 || err != nil {
		return requeue(wait), err
	}
	// Daemons and timers that are not there yet.
	e.startBackground(ctx, r)
	// The handlers that want to be called, and those of them that are due.
	e.selectHandlers(ctx, r)
	e.makePlan(ctx, r)
	// Called in order, recorded, written.
	if err := e.run(ctx, r); err != nil {
		return none, err
	}
	e.callReconcileHandlers(ctx, r)
	if err := e.finish(ctx, r); err != nil {
		return none, err
	}
	// And when to come back.
	result := e.schedule(r)
	e.expectOwnEvent(r, result)
	return result, nil
}

// assess finds out what has happened to the object, and who must be called for it.
func (e *Engine) evaluate(ctx context.Context, r *reconciliation) error {
	// What the API server has rejected of our part, as if it were stored.
	if err := e.useOverlay(ctx, r); err != nil {
		return err
	}
	// How far the handlers are; the essence then and now: the cause.
	e.detect(ctx, r)
	// The handlers whose business the object is, and the daemons and timers; others are stopped.
	e.matchHandlers(ctx, r)
	e.selectBackground(ctx, r)
	return nil
}

// restart continues a reconcile with a newer state of the object, as if it had been read from the cache.
func (e *Engine) restart(ctx context.Context, r *reconciliation, obj client.Object) error {
	*r = reconciliation{known: r.known, pauses: r.pauses, suspensions: r.suspensions, afterEpoch: r.afterEpoch}
	if err := r.setBase(obj); err != nil {
		return err
	}
	return e.evaluate(ctx, r)
}

// requeue never asks for a wait of zero or less: to controller-runtime that means to forget.
func requeue(after time.Duration) reconcile.Result {
	return reconcile.Result{RequeueAfter: max(after, time.Millisecond)}
}
