package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/internal/background"
	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/eventrecorder"
	"github.com/kopf-runtime/kopf-runtime/internal/fencing"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/lazylog"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/promotion"
	"github.com/kopf-runtime/kopf-runtime/internal/tracking"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Engine reconciles the objects of one kind.
type Engine struct {
	Settings
	Kind
	states        *objectStore
	committer     *commit.Committer
	hooks         *invoke.Hooks // nil without hooks
	detector      *cause.Detector
	health        health
	indexFailures indexFailures
	events        *eventrecorder.Poster

	supervisor     *daemons.Supervisor
	background     *background.Runner
	enqueuer       enqueuer
	tracker        *tracking.Tracker
	promoter       *promotion.Promoter
	tombstones     tombstones
	eventQueues    eventQueues
	clusterEvents  clusterEvents
	epoch          *epoch // nil if every state of the cache is trusted
	pausedKeys     pausedKeys
	pausedObjects  markedObjects
	loopingObjects markedObjects // their handlers cause their own calls
	releases       releases
	drains         drains
	runs           runCounter
	panicChanges   panicChanges // of daemons and timers
	pauses         atomic.Int32 // the number of pauses that have begun in any namespace
	ended          atomic.Bool  // the operator has ended, and nothing is written any more
	hasPredicates  atomic.Bool  // predicates may prevent reconciles

	writesEventChanges bool // changes of an event handler are written
	reportsConditions  bool // the engine sets conditions
	handlesOwnChanges  bool // changes of handlers can be updates
	conditionPlaces    []conditions.Option
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
	e := &Engine{Settings: settings, Kind: kind}
	e.states = objectstate.New[objectMemory](objectstate.Options{
		RecordEvents: len(kind.EventHandlers.IDs()) > 0,
		TrackDirty:   len(kind.ReconcileHandlers.IDs()) > 0,

		ExistedAtStart: e.existedAtEpoch,
		ReadBaseline:   settings.Baseline.Fetch,
	})
	e.events = &eventrecorder.Poster{
		Name: e.Name, GVK: e.GVK, Client: e.Client, Recorder: e.Recorder, Level: e.Events,
		Limiter: eventrecorder.Limiter{AggregatesSeries: settings.AggregatesEvents}, LoggerFor: e.logOf,
	}
	e.supervisor = daemons.New(daemons.Options{
		OnEnd:       func(key daemons.Key) { e.enqueue(key.UID) },
		Kind:        kind.GVK.Kind,
		GracePeriod: background.GracePeriod,
	})
	if settings.Scope != nil {
		e.health.keys = map[types.NamespacedName]bool{}
	}
	e.detector = e.newDetector()
	e.committer = e.newCommitter(lastHandled)
	if len(e.AttemptHooks) > 0 {
		e.hooks = &invoke.Hooks{Kind: e.GVK, Each: e.AttemptHooks}
	}
	e.background = &background.Runner{
		Name: e.Name, Handlers: &e.BackgroundHandlers, Supervisor: e.supervisor, Committer: e.committer, Objects: e.states, Hooks: e.hooks,
		Results: e.Results, WithDefaults: e.withDefaults, NewView: e.newView, Report: e.reportBackground, Enqueue: e.enqueue, LoggerFor: e.logOf,
		Leaves: e.Shard.leaves, OnCall: e.beginBackgroundCall,
	}
	e.promoter = promotion.New(e.states, func() {
		e.QueueStats() // updates the metrics
		e.events.Limiter.Sweep()
	})
	e.tracker = tracking.New(e.Client, e.Tracked, func(key types.NamespacedName) { e.Trigger(key) })
	e.writesEventChanges, e.reportsConditions = kind.WritesEventChanges(), kind.mayReportConditions()
	e.handlesOwnChanges = e.OwnChanges || len(e.Watched)+len(e.Conditions) > 0
	e.conditionPlaces = slices.Clip(kind.conditionOptions())
	metrics.LoopingObjects.WithLabelValues(e.Name).Set(0) // an earlier operator in this process may have set it
	if e.Shard != nil {
		metrics.DrainingObjects.WithLabelValues(e.Name).Set(0)
	}
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
	if e.Scope != nil {
		all = &scopeFilter{e, all}
	}
	if e.Shard != nil {
		all = e.filterByShard(all)
	}
	return all
}

// Promoter returns the source that a controller with the given number of workers must watch.
func (e *Engine) Promoter(workers int) source.Source { return e.promoter.For(workers) }

// Memos returns the values that handlers store for an object. For an unknown object, they are empty and not kept.
func (e *Engine) Memos(uid types.UID) *objectstate.Memos { return e.states.Memos(uid) }

// Background runs daemons and timers until the context ends, and returns when they have ended.
func (e *Engine) Background(ctx context.Context) error {
	logger := e.Log.WithValues("controller", e.Name)
	return e.supervisor.Start(log.IntoContext(ctx, logger))
}

// logOf returns the logger for an object outside of reconciles.
func (e *Engine) logOf(obj client.Object) logr.Logger {
	return lazylog.New(e.Log).WithValues("controller", e.Name, "kind", e.GVK.Kind, "namespace", obj.GetNamespace(), "name", obj.GetName(), "uid", obj.GetUID())
}

// Close marks the operator as ended. Daemons and timers that have not stopped in time can no longer write.
func (e *Engine) Close() {
	e.ended.Store(true)
	e.tracker.Close()
}

// Reconcile handles the object of a key. The cause follows from the state of the object, and the due handlers follow from its records. The request
// contains neither.
func (e *Engine) Reconcile(ctx context.Context, req reconcile.Request) (result reconcile.Result, err error) {
	key := req.NamespacedName
	defer e.trackReconcile(key)()
	if e.Scope != nil || e.Shard != nil {
		switch {
		case !e.inScope(key):
			return e.requeueErrors(key)(e.release(ctx, key))
		case e.deferUntilAdmitted(ctx, key):
			return reconcile.Result{}, nil
		}
	}
	var again, vanished time.Duration
	if len(e.EventHandlers.IDs()) > 0 {
		again = e.callEventHandlers(ctx, key)
	}
	if e.Pause != nil && e.deferIfPaused(ctx, key) {
		return requeueBefore(reconcile.Result{}, again), nil
	}
	if e.states.HasDeleted(key) || e.tombstones.count.Load() > 0 && e.tombstones.has(key) {
		vanished = e.handleDeleted(ctx, key)
	}
	if result, err = e.requeueErrors(key)(e.reconcile(ctx, key)); err == nil {
		result = requeueBefore(requeueBefore(result, vanished), again)
	}
	if result.RequeueAfter > 0 {
		e.states.MarkQueuedAt(key, time.Now().Add(result.RequeueAfter))
	}
	return result, err
}

// requeueErrors returns a function that replaces expected errors by a delay, see requeueFor, and records the errors for explanations.
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
func (e *Engine) reconcile(ctx context.Context, key types.NamespacedName) (none reconcile.Result, err error) {
	r, err := e.observe(ctx, key)
	e.noteObject(key, r)
	if r == nil || err != nil {
		return none, err
	}
	defer r.known.Unlock()
	if e.Shard != nil && e.Shard.leaves(r.Base()) {
		return none, nil // the informer will deliver this state, and the engine then releases the object
	}
	ctx = log.IntoContext(ctx, lazylog.New(log.FromContext(ctx)).WithValues("uid", string(r.Base().GetUID())))
	ctx = objectstate.ContextWithMemos(ctx, e.states.Memos(r.Base().GetUID()))
	if wait, err := e.awaitFreshCache(ctx, r); wait > 0 || err != nil { // after our own writes
		return requeue(wait), err
	}
	if err := e.evaluate(ctx, r); err != nil {
		return none, err
	}
	if _, annotated := r.Base().GetAnnotations()[PausedAnnotation]; annotated {
		if paused, err := e.holdIfPaused(ctx, r); paused {
			return none, err
		}
	}
	if !r.known.Worker.SeenSinceStart { // shortly after the start of the process
		var wait time.Duration
		if r, wait, err = e.verifyAgainstEpoch(ctx, r); wait > 0 || err != nil {
			return requeue(wait), err
		}
	}
	if e.Shard != nil && e.Shard.leaves(r.Base()) {
		return none, nil // the object was read from the API server; the informer will deliver this state
	}
	if wait, err := e.ensureFinalizer(ctx, r); wait > 0 || err != nil { // for delete handlers, daemons and timers
		return requeue(wait), err
	}
	if len(r.matching.background) > 0 {
		e.background.Start(ctx, r.Base(), r.matching.background, r.backgroundState(), !r.known.ExistedAtStart)
	}
	guarded := ""
	if r.known.Worker.Loops != nil { // handlers have made changes that may cause their own calls
		guarded = e.guardLoops(ctx, r)
	}
	e.selectHandlers(ctx, r)
	e.makePlan(ctx, r)
	if e.writesEventChanges {
		e.takeEventChanges(ctx, r)
	}
	if err := e.callHandlers(ctx, r); err != nil {
		return none, err
	}
	if err := e.commit(ctx, r); err != nil {
		return none, err
	}
	result := e.schedule(r)
	if r.known.Worker.Loops != nil {
		result = requeueBefore(result, e.releaseLoops(ctx, r, guarded))
	}
	e.expectOwnEvent(r, result)
	return result, nil
}

// evaluate detects the cause, and finds the handlers, daemons and timers that match the object.
func (e *Engine) evaluate(ctx context.Context, r *reconciliation) error {
	if r.Remote != nil || r.Memory.Overlay != nil { // progress that is not stored on the object
		if err := r.UseOverlay(ctx); err != nil {
			return err
		}
	}
	e.detect(ctx, r)
	e.matchHandlers(ctx, r)
	if len(e.BackgroundHandlers.IDs()) > 0 {
		r.matching.background = e.background.Select(ctx, r.Base(), r.matching.view, r.Content())
		if !r.Cause.Deleting {
			e.background.Touch(r.Base(), r.Cause.Live, r.backgroundState())
		}
	}
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

// requeueFor returns a delay for expected errors: conflicts, throttling, and a suspension of the process. For a deleted object, it returns neither a delay
// nor an error. All other errors are returned as unexpected.
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
