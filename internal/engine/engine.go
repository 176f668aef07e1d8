package engine

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/eventrecorder"
	"github.com/kopf-runtime/kopf-runtime/internal/fencing"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Engine reconciles the objects of one kind.
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
	loggedDrops   dropLog

	supervisor    *daemons.Supervisor
	enqueuer      enqueuer
	tracker       tracker
	promoter      promoter
	tombstones    tombstones
	eventQueues   eventQueues
	epoch         *epoch // nil if every state of the cache is trusted
	pausedKeys    pausedKeys
	pausedObjects markedObjects
	// loopingObjects are the objects whose handlers cause their own calls.
	loopingObjects markedObjects
	pauses         atomic.Int64 // the number of pauses that have begun in any namespace
	ended          atomic.Bool  // the operator has ended, and nothing is written any more
	hasPredicates  atomic.Bool  // predicates may prevent reconciles

	writesEventChanges bool // changes of an event handler are written
}

// New returns the engine of a kind.
func New(settings Settings, kind Kind) *Engine {
	if stores := kind.HandlerStores(); len(stores) > 0 {
		settings.Store = progress.ByHandler(settings.Store, stores)
	}
	settings.ConsistencyTimeout = cmp.Or(settings.ConsistencyTimeout, DefaultConsistencyTimeout)
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
	if settings.Scope != nil {
		e.health.keys = map[types.NamespacedName]bool{}
	}
	e.detector = e.newDetector()
	e.builder = &commit.Builder{
		Detector: e.detector, Store: e.Store, Baseline: lastHandled, Pin: e.Pin, HandlerIDs: e.Handlers.IDs(), Finalizer: e.Finalizer, HasStatus: e.HasStatus,
	}
	e.writer = &patch.Writer{
		Client: e.Client, APIReader: e.APIReader, NewObject: e.New, GVK: e.GVK, HasStatus: e.HasStatus,
		OnConflict: metrics.WriteConflicts.WithLabelValues(e.Name).Inc,
	}
	e.writesEventChanges = kind.WritesEventChanges()
	metrics.LoopingObjects.WithLabelValues(e.Name).Set(0) // an earlier operator in this process may have set it
	for _, id := range e.Indexes.IDs() {
		index, _ := e.Indexes.Get(id)
		index.Clear() // an earlier operator in this process may have filled it
	}
	return e
}

// EventHandler returns the event handler for the informer of the kind.
func (e *Engine) EventHandler(predicates ...predicate.Predicate) handler.EventHandler {
	e.hasPredicates.Store(len(predicates) > 0)
	all := e.states.EventHandler(observer{e}, predicates...)
	if e.Scope == nil {
		return all
	}
	return &scopeFilter{e, all}
}

// Memos returns the values that handlers store for an object. For an unknown object, they are empty and not kept.
func (e *Engine) Memos(uid types.UID) *objectstate.Memos { return e.states.Memos(uid) }

// Close marks the operator as ended. Daemons and timers that have not stopped in time can write nothing any more.
func (e *Engine) Close() {
	e.ended.Store(true)
	e.stopTracking()
}

// Reconcile handles the object of a key. The cause follows from the state of the object, and the due handlers follow from its records. The request
// contains neither.
func (e *Engine) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	defer e.trackReconcile(req.NamespacedName)()
	if !e.inScope(req.NamespacedName) {
		return e.requeueErrors(req.NamespacedName)(e.release(ctx, req.NamespacedName))
	}
	if e.deferUntilAdmitted(ctx, req.NamespacedName) {
		return reconcile.Result{}, nil
	}
	again := e.callEventHandlers(ctx, req.NamespacedName)
	if e.deferIfPaused(ctx, req.NamespacedName) {
		return requeueBefore(reconcile.Result{}, again), nil
	}
	vanished := e.handleDeleted(ctx, req.NamespacedName)
	result, err := e.requeueErrors(req.NamespacedName)(e.reconcile(ctx, req))
	if err == nil {
		result = requeueBefore(requeueBefore(result, vanished), again)
	}
	if result.RequeueAfter > 0 {
		e.states.MarkQueuedAt(req.NamespacedName, time.Now().Add(result.RequeueAfter))
	}
	return result, err
}

// requeueErrors returns a function that replaces expected errors by a delay, see requeueFor.
func (e *Engine) requeueErrors(key types.NamespacedName) func(reconcile.Result, error) (reconcile.Result, error) {
	return func(result reconcile.Result, err error) (reconcile.Result, error) {
		delay, unexpected := requeueFor(err)
		if delay == 0 && unexpected == nil {
			err = nil // the object is deleted
		}
		e.health.setFailure(key, err, delay > 0)
		if delay > 0 || unexpected != nil {
			return reconcile.Result{RequeueAfter: delay, Priority: new(retrying)}, unexpected
		}
		return result, nil
	}
}

// reconcile takes the object through the phases: observe, cause, plan, invoke, commit, schedule.
func (e *Engine) reconcile(ctx context.Context, req reconcile.Request) (none reconcile.Result, err error) {
	r, err := e.observe(ctx, req.NamespacedName)
	e.pausedObjects.note(metrics.PausedObjects, e.Name, req.NamespacedName, r != nil && IsObjectPaused(r.before))
	e.loopingObjects.note(metrics.LoopingObjects, e.Name, req.NamespacedName, r != nil && r.known.Worker.Loops.isLooping())
	if r == nil || err != nil {
		return none, err
	}
	defer r.known.Unlock()
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("uid", string(r.before.GetUID())))
	ctx = objectstate.ContextWithMemos(ctx, e.states.Memos(r.before.GetUID()))
	if wait, err := e.awaitFreshCache(ctx, r); wait > 0 || err != nil { // has an effect after our own writes
		return requeue(wait), err
	}
	if err := e.evaluate(ctx, r); err != nil {
		return none, err
	}
	warnAboutAnnotation(ctx, r.before)
	if IsObjectPaused(r.before) {
		return none, e.holdPaused(ctx, r)
	}
	if wait, err := e.verifyAgainstEpoch(ctx, r); wait > 0 || err != nil { // has an effect shortly after the start of the process
		return requeue(wait), err
	}
	if wait, err := e.ensureFinalizer(ctx, r); wait > 0 || err != nil { // for delete handlers, daemons and timers
		return requeue(wait), err
	}
	e.startBackground(ctx, r)
	endGuard := e.guardLoops(ctx, r)
	e.selectHandlers(ctx, r)
	e.makePlan(ctx, r)
	e.takeEventChanges(ctx, r)
	if err := e.run(ctx, r); err != nil {
		return none, err
	}
	e.callReconcileHandlers(ctx, r)
	if err := e.writeOutcomes(ctx, r); err != nil {
		return none, err
	}
	result := requeueBefore(e.schedule(r), endGuard())
	e.expectOwnEvent(r, result)
	return result, nil
}

// evaluate detects the cause, and finds the handlers, daemons and timers that match the object.
func (e *Engine) evaluate(ctx context.Context, r *reconciliation) error {
	if err := e.useOverlay(ctx, r); err != nil {
		return err
	}
	e.detect(ctx, r)
	e.matchHandlers(ctx, r)
	e.selectBackground(ctx, r)
	return nil
}

// requeue returns a result with a delay of at least a millisecond. With zero, controller-runtime would not reconcile the object again.
func requeue(after time.Duration) reconcile.Result {
	return reconcile.Result{RequeueAfter: max(after, time.Millisecond)}
}

// requeueBefore shortens the delay of a result. With 0, the result stays as it is.
func requeueBefore(result reconcile.Result, after time.Duration) reconcile.Result {
	if after == 0 || result.RequeueAfter > 0 && result.RequeueAfter <= after {
		return result
	}
	return reconcile.Result{RequeueAfter: after, Priority: new(retrying)}
}

// requeueFor maps expected errors to a delay: conflicts, throttling, and a suspension of the process. For a deleted object, it returns neither a delay
// nor an error.
func requeueFor(err error) (delay time.Duration, unexpected error) {
	if errors.Is(err, patch.ErrGone) {
		return 0, nil
	}
	if errors.Is(err, fencing.ErrSuspended) {
		return time.Second, nil
	}
	if apierrors.IsConflict(err) || errors.Is(err, progress.ErrConflict) {
		return conflictPause, nil
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 && apierrors.IsTooManyRequests(err) {
		return time.Duration(seconds) * time.Second, nil
	}
	return 0, err
}

const conflictPause = 100 * time.Millisecond

func now() time.Time { return time.Now() }

func hasEnded(ctx context.Context) bool { return ctx.Err() != nil }
