package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/background"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/decoding"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/epoch"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/eventrecorder"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/leancache"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/promotion"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/retry"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/shards"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/tracking"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Engine reconciles the objects of one kind.
type Engine struct {
	Settings
	Kind
	traits    traits
	layers    []layer    // outermost first
	layered   reconciler // the steps within the layers
	states    *objectStore
	detector  *cause.Detector
	committer *commit.Committer
	events    *eventrecorder.Poster
	tracker   *tracking.Tracker
	epoch     *epoch.Epoch    // nil if every state of the cache is trusted
	lean      *leancache.Form // of the cached objects; nil if they are whole
	restRule  restRule
	skipped   keyedMap[types.UID, struct{}] // objects at rest, until ConfirmAtRest

	queue      queue
	background backgroundWork
	others     otherHandlers
	gone       goneObjects
	pause      pauses
	sharding   sharding
	held       heldByReason
	revisions  revisions
	retries    *retry.Keys // of requests to call handlers again; nil if the objects contain no progress
}

// traits follow from the kind's declaration and the settings.
type traits struct {
	hooks              *invoke.Hooks // nil without hooks
	writesEventChanges bool          // event handlers' changes are written
	reportsConditions  bool          // the engine sets conditions
	usesFinalizer      bool          // the engine adds and removes the finalizer
	retriesOnChange    bool          // waiting cause handlers are called when related objects change
	handlesOwnChanges  bool          // handlers' changes can be updates
	conditionPlaces    []conditions.Option
}

// queue contains what the engine knows about the queue and the workers.
type queue struct {
	promoter      *promotion.Promoter
	hasPredicates atomic.Bool // predicates may prevent reconciles
	ended         atomic.Bool // the operator has stopped, and nothing is written any more
	created       time.Time
	finished      atomic.Int64                             // the last reconcile's end, counted from created; 0 if none has started
	running       keyedMap[types.NamespacedName, struct{}] // the keys being reconciled
	failures      keyedMap[types.NamespacedName, failure]  // of the last reconciles
	backingOff    keyedMap[types.NamespacedName, bool]     // reconcile handlers of these keys have failed or asked for a rate-limited call
}

// backgroundWork contains the daemons and timers.
type backgroundWork struct {
	supervisor   *daemons.Supervisor
	runner       *background.Runner
	runs         keyedMap[types.UID, int]           // the number of runs, including those that the supervisor has abandoned
	panicChanges keyedMap[types.UID, []panicChange] // not written by the workers yet
}

// otherHandlers is the state of handlers that have no cause.
type otherHandlers struct {
	order         []string                                     // the reconcile handlers' ids, each after those that must succeed before it
	eventQueues   keyedMap[types.NamespacedName, eventQueue]   // of event handlers
	clusterEvents keyedMap[handlerKey, []*invoke.ClusterEvent] // the Kubernetes Events that wait for their handlers
	indexFailures keyedMap[handlerKey, progress.Record]        // of index handlers
}

// goneObjects are objects that have left the cache, but for which handlers may still be called.
type goneObjects struct {
	deletions  *deletionChecker
	tombstones keyedMap[types.NamespacedName, []*tombstone] // of vanished objects
	lastCalls  keyedMap[types.NamespacedName, *lastCalls]   // of reconcile handlers for deleted objects
}

// pauses contains what the engine knows about pauses.
type pauses struct {
	count      atomic.Int32                             // how many pauses have begun in any namespace
	namespaces keyedMap[string, struct{}]               // no daemon or timer is started in them; "" means all namespaces
	deferred   keyedMap[types.NamespacedName, struct{}] // the keys that wait until a pause is over, or until the scope admits them
}

// sharding contains the objects that are leaving the shard.
type sharding struct {
	releases shards.Releases
	events   handler.EventHandler // receives the events of the shard's objects
	draining objectSet
}

// heldByReason are the held objects, for the metric.
type heldByReason struct {
	bySteps []*heldObjects // by the reason why a step held them in their last reconcile
	looping *heldObjects   // their handlers cause their own calls
}

// identify sets the apiVersion and the kind, which typed clients drop. It doesn't write to an object that has them, because an unstructured
// object's content may be shared.
func (e *Engine) identify(obj client.Object) {
	if obj.GetObjectKind().GroupVersionKind() != e.GVK {
		obj.GetObjectKind().SetGroupVersionKind(e.GVK)
	}
}

// latest returns a copy of an object's newest known state. For a deleted object, that is its last known state.
func (e *Engine) latest(obj client.Object) client.Object {
	newest := e.states.Newest(obj.GetUID())
	if newest == nil {
		newest = obj
	}
	return e.wholeCopy(newest)
}

// whole returns a cached object with the text of its baseline. If the object has no JSON form, the cache has not shrunk it.
func (e *Engine) whole(obj client.Object) client.Object {
	if whole, _, err := e.lean.Whole(obj, nil); err == nil {
		return whole
	}
	return obj
}

// wholeCopy returns a copy of a cached object with the text of its baseline.
func (e *Engine) wholeCopy(obj client.Object) client.Object {
	copied := e.whole(obj).DeepCopyObject().(client.Object)
	e.identify(copied)
	return copied
}

// baselineOf returns the baseline of a cached object.
func (e *Engine) baselineOf(obj client.Object) []byte { return e.Baseline.Fetch(e.whole(obj)) }

// baselineComparison returns a function that compares cached objects' baselines without making the objects whole. It returns nil if they
// are whole.
func (e *Engine) baselineComparison() func(one, other client.Object) bool {
	if e.lean == nil {
		return nil
	}
	return func(one, other client.Object) bool {
		return essence.BaselineDigest(e.Baseline.Fetch(one)) == essence.BaselineDigest(e.Baseline.Fetch(other))
	}
}

func (e *Engine) readCached(ctx context.Context, key types.NamespacedName) (client.Object, error) {
	return e.readObject(ctx, e.Cache, key)
}

func (e *Engine) readLive(ctx context.Context, key types.NamespacedName) (client.Object, error) {
	return e.readObject(ctx, e.APIReader, key)
}

// readObject returns nil for an object that does not exist.
func (e *Engine) readObject(ctx context.Context, from client.Reader, key types.NamespacedName, opts ...client.GetOption) (client.Object, error) {
	obj := e.New()
	if err := from.Get(ctx, key, obj, opts...); err != nil {
		if _, isLeftOut := errors.AsType[decoding.Object](err); isLeftOut || patch.IsNotFound(err) {
			return nil, nil // a cache leaves out an object that does not decode
		}
		return nil, fmt.Errorf("reading %s %s: %w", e.GVK.Kind, key, rbac.Explain(err))
	}
	e.identify(obj)
	return obj, nil
}

// findFault reads an object without its Go type, and returns it with the reason why it doesn't decode. The fault is nil if the object
// decodes or cannot be read.
func (e *Engine) findFault(ctx context.Context, key types.NamespacedName) (raw *unstructured.Unstructured, fault *decoding.Fault) {
	newObject := decoding.Constructor(e.New())
	raw = &unstructured.Unstructured{}
	raw.SetGroupVersionKind(e.GVK)
	if newObject == nil || e.APIReader.Get(ctx, key, raw) != nil {
		return nil, nil //nolint:nilerr // the caller has an error of its own
	}
	if data, err := raw.MarshalJSON(); err == nil {
		fault = decoding.Check(data, newObject)
	}
	return raw, fault
}

// exists asks the API server whether an object exists. It reads only the metadata, because the object may have left the cache when it
// stopped decoding into its Go type.
func (e *Engine) exists(ctx context.Context, obj client.Object) (bool, error) {
	live, key := &metav1.PartialObjectMetadata{}, client.ObjectKeyFromObject(obj)
	live.SetGroupVersionKind(e.GVK)
	switch err := e.APIReader.Get(ctx, key, live); {
	case patch.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading %s %s: %w", e.GVK.Kind, key, rbac.Explain(err))
	}
	return live.GetUID() == obj.GetUID(), nil
}

// logOf returns the logger for an object outside of reconciles.
func (e *Engine) logOf(obj client.Object) logr.Logger {
	return LazyLogger(e.Log).WithValues("controller", e.Name, "kind", e.GVK.Kind, "namespace", obj.GetNamespace(), "name", obj.GetName(), "uid", obj.GetUID())
}

// handlerIDs returns the ids of all handlers, with or without a cause.
func (e *Engine) handlerIDs() []string {
	return slices.Concat(e.Handlers.IDs(), e.EventHandlers.IDs(), e.ReconcileHandlers.IDs(), e.BackgroundHandlers.IDs(), e.Indexes.IDs())
}

// guard calls a function of the engine that calls users' methods: those of their Go types, and with CallsUserCode those of their stores and
// conditions.
func (e *Engine) guard(fn func() error) error {
	if e.CallsUserCode {
		return guard.Call("", fn)
	}
	return guard.Catch("", fn)
}

// A reconciler handles a key's object.
type reconciler func(ctx context.Context, key types.NamespacedName) (reconcile.Result, error)

// A layer is middleware around the steps of a reconcile. It doesn't need an object, so it handles even keys whose objects no longer exist.
type layer struct {
	// hold returns why the layer would hold a key's object. It has no side effects. It is nil for a layer that holds nothing.
	hold func(key types.NamespacedName) Hold
	// wrap returns the reconciler with the layer around next.
	wrap func(next reconciler) reconciler
}

// heldObjects are the objects that a step holds for one reason.
type heldObjects struct {
	reason  HoldReason
	objects objectSet
	gauge   prometheus.Gauge
}

func newHeldObjects(kind string, reason HoldReason) *heldObjects {
	gauge := metrics.HeldObjects.WithLabelValues(kind, strings.ToLower(string(reason)))
	gauge.Set(0) // an earlier operator in this process may have set it
	return &heldObjects{reason: reason, gauge: gauge}
}

// noteHold records for the metric which step holds a key's object. An empty reason means that none does.
func (e *Engine) noteHold(key types.NamespacedName, reason HoldReason) {
	for _, h := range e.held.bySteps {
		h.objects.Note(h.gauge, key, h.reason == reason)
	}
}

// noteLoop records whether the handlers of a key's object cause their own calls.
func (e *Engine) noteLoop(key types.NamespacedName, loops bool) {
	e.held.looping.objects.Note(e.held.looping.gauge, key, loops)
}

// newReconciliation returns a reconciliation without an object. The caller must have locked the state, unless no worker uses it.
func (e *Engine) newReconciliation(known *objectState) *reconciliation {
	if known.Worker.Details == nil {
		known.Worker.Details = &objectDetails{}
	}
	r := &reconciliation{engine: e, known: known, details: known.Worker.Details}
	r.session = e.committer.NewSession(&r.details.Memory)
	r.draft = r.session.Draft
	return r
}

// hasFinalizer reports whether an object has the operator's finalizer. Operators of one kind often share kopf's name. One that never adds
// it leaves it to the others.
func (e *Engine) hasFinalizer(obj client.Object) bool {
	return e.traits.usesFinalizer && slices.Contains(obj.GetFinalizers(), e.Finalizer)
}

// ReportLeftFinalizers is called after the first list. If the engine never removes the finalizer, it logs how many objects have it, because
// an earlier version of the operator may have added it for a delete handler.
func (e *Engine) ReportLeftFinalizers() {
	if e.traits.usesFinalizer {
		return
	}
	count := 0
	for _, obj := range e.states.List() {
		if slices.Contains(obj.GetFinalizers(), e.Finalizer) {
			count++
		}
	}
	if count > 0 {
		e.Log.Info("Objects have a finalizer that no handler of this operator needs. If it belongs to no other operator, their deletion will not end before it is removed",
			"controller", e.Name, "objects", count, "finalizer", e.Finalizer, "remedy", "kopf objects release --keep-annotations <resource>.<group> -A")
	}
}

func (e *Engine) inScope(key types.NamespacedName) bool {
	return (e.Scope == nil || e.Scope.InScope(key)) && !e.isLeaving(key)
}

// isLeaving reports whether a key's object is being released, or was released.
func (e *Engine) isLeaving(key types.NamespacedName) bool {
	if e.Shard == nil {
		return false
	}
	if e.sharding.releases.IsDone(key) {
		return true
	}
	obj := e.states.Observed(key)
	return obj != nil && e.Shard.Leaves(obj)
}

func (e *Engine) paused(namespace string) bool {
	if e.Pause == nil {
		return false
	}
	paused, _ := e.Pause.Paused(namespace)
	return paused
}

// copyState returns a copy of an object's state, which is empty if the object is unknown. It returns nil if a worker is reconciling the
// object.
func (e *Engine) copyState(ctx context.Context, uid types.UID) *objectState {
	for range copyAttempts { // another explanation may be copying the state at the same time
		if copied := e.tryCopyState(uid); copied != nil {
			return copied
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

const copyAttempts = 5

// tryCopyState is copyState without waiting.
func (e *Engine) tryCopyState(uid types.UID) *objectState {
	known := e.states.Get(uid)
	switch {
	case known == nil:
		return &objectState{}
	case !known.TryLock():
		return nil
	}
	defer known.Unlock()
	copied := &objectState{Worker: known.Worker, ExistedAtStart: known.ExistedAtStart}
	copied.SetAwaitedVersion(known.AwaitedVersion(), 0)
	copied.Worker.Details = known.Worker.Details.copy()
	return copied
}
