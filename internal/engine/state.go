package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/background"
	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/decoding"
	"github.com/kopf-runtime/kopf-runtime/internal/epoch"
	"github.com/kopf-runtime/kopf-runtime/internal/eventrecorder"
	"github.com/kopf-runtime/kopf-runtime/internal/fencing"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/keyed"
	"github.com/kopf-runtime/kopf-runtime/internal/lazylog"
	"github.com/kopf-runtime/kopf-runtime/internal/loopguard"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/internal/promotion"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/internal/shards"
	"github.com/kopf-runtime/kopf-runtime/internal/tracking"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Engine reconciles the objects of one kind.
type Engine struct {
	Settings
	Kind
	layers    []layer
	layered   reconciler // the steps within the layers
	states    *objectStore
	committer *commit.Committer
	hooks     *invoke.Hooks // nil without hooks
	detector  *cause.Detector
	events    *eventrecorder.Poster

	supervisor    *daemons.Supervisor
	deletions     *deletionChecker
	background    *background.Runner
	tracker       *tracking.Tracker
	promoter      *promotion.Promoter
	epoch         *epoch.Epoch // nil if every state of the cache is trusted
	releases      shards.Releases
	shardEvents   handler.EventHandler // receives the events of the objects of the shard
	pauses        atomic.Int32         // the number of pauses that have begun in any namespace
	ended         atomic.Bool          // the operator has ended, and nothing is written any more
	hasPredicates atomic.Bool          // predicates may prevent reconciles
	order         []string             // the ids of the reconcile handlers, each after those that must succeed before it
	created       time.Time
	finished      atomic.Int64 // the end of the last reconcile, as a duration since created; 0 if none has begun

	running          keyed.Map[types.NamespacedName, struct{}]     // the keys that are being reconciled
	failures         keyed.Map[types.NamespacedName, failure]      // of the last reconciles
	tombstones       keyed.Map[types.NamespacedName, []*tombstone] // of vanished objects
	eventQueues      keyed.Map[types.NamespacedName, eventQueue]   // of event handlers
	clusterEvents    keyed.Map[handlerKey, []*invoke.ClusterEvent] // the Kubernetes Events that wait for their handlers
	indexFailures    keyed.Map[handlerKey, progress.Record]        // of index handlers
	panicChanges     keyed.Map[types.UID, []panicChange]           // of daemons and timers; the workers have not written them yet
	runs             keyed.Map[types.UID, int]                     // the number of runs of daemons and timers, with those that the supervisor has abandoned
	deferred         keyed.Map[types.NamespacedName, struct{}]     // the keys that wait for the end of a pause, or for the admission by the scope
	pausedNamespaces keyed.Map[string, struct{}]                   // no daemon or timer is started in them; "" means all namespaces
	lastCalls        keyed.Map[types.NamespacedName, *lastCalls]   // of reconcile handlers for deleted objects
	backingOff       keyed.Map[types.NamespacedName, bool]         // reconcile handlers of these keys have failed or asked for a rate-limited call
	held             []*heldObjects                                // by the reason for which a step has ended their last reconcile
	looping          *heldObjects                                  // their handlers cause their own calls
	drainingObjects  metrics.ObjectSet

	writesEventChanges bool // changes of an event handler are written
	reportsConditions  bool // the engine sets conditions
	usesFinalizer      bool // the engine adds and removes the finalizer
	retriesOnChange    bool // changes of related objects call cause handlers that wait
	handlesOwnChanges  bool // changes of handlers can be updates
	conditionPlaces    []conditions.Option
}

// handlerKey is the key of data about a handler and an object.
type handlerKey struct {
	uid types.UID
	id  string
}

// reconciliation is one reconcile of one object. Only the worker of the object uses it. Its parts belong to one phase each.
type reconciliation struct {
	engine     *Engine
	session    *commit.Session // the cause and the records
	draft      *commit.Draft   // the object with the pending changes
	known      *objectState
	details    *objectDetails     // of known
	afterEpoch bool               // the cache had reached the epoch before the object was read
	edits      []*background.Edit // the edits by daemons and timers that are part of Cause.Old
	old        client.Object      // the object of Cause.Old; nil until it is needed

	matching matching
	calls    calls
	report   report
}

// matching contains the handlers whose filters accept the object.
type matching struct {
	view       *invoke.View // for the predicates of handlers
	handlers   []string     // the cause handlers
	selection  plan.Selection
	background []string // the daemons and timers
	reconciles bool     // a reconcile handler matches
}

// calls contains the plan and the calls of cause handlers in this reconcile.
type calls struct {
	plan          plan.Plan
	called        []string
	top           string        // the handler that is being called, or whose sub-handlers are being called
	workTime      time.Duration // the time in handlers since the last write
	unsaved       bool          // handlers were called since the last write
	aborted       bool          // no other handler is called in this reconcile, because of a deletion, a pause or a rejection
	relatedChange bool          // a related object has changed since the last reconcile; only if this can call cause handlers
	err           error         // the error of a write between handlers
}

// report contains what the conditions and the Events of the reconcile report.
type report struct {
	attempts     []attempt
	posted       int           // the number of attempts whose Events are posted
	panicChanges []panicChange // of daemons and timers
}

// attempt is an attempt of a cause handler or a reconcile handler that has ended. It is reported after the write, because the API server may reject the
// changes of the handler, and the attempt then fails.
type attempt struct {
	*commit.HandlerPatch
	conditionType string                 // of the condition that reports the handler; empty if there is none
	after         map[string]any         // the JSON form of the object after the attempt
	reconciles    *reconcileHandlerState // the state of the reconcile handler; nil for a cause handler
}

// objectMemory contains the data that the process keeps about one object. Only the worker of the object uses it.
type objectMemory struct {
	// Handled is true after a cycle of the object has ended in this process. Resume handlers are then not called again.
	Handled bool
	// SeenAlive is true if this process has seen the object without a deletion timestamp.
	SeenAlive bool
	// OptionalDeleteCalled is true after the optional delete handlers were called.
	OptionalDeleteCalled bool
	// SeenSinceStart is true if this process has seen a version of the object that is at least as new as the start of the process.
	SeenSinceStart bool
	// PausesAtReconcile is the number of pauses before the last reconcile of the object.
	PausesAtReconcile int32
	// Details is nil if all its data is empty, as for most objects that this process has not written.
	Details *objectDetails
}

// objectDetails are the data about an object that this process has written, or that has daemons, timers or reconcile handlers.
type objectDetails struct {
	// Settled is true if the awaited write has ended a cycle and left nothing to do, until the next reconcile.
	Settled bool
	// Memory contains the data of package commit about the writes to the object. The sessions of the object share it.
	Memory commit.Memory
	// Pending is a reconcile whose write has failed. The write is repeated before the next decision.
	Pending *reconciliation
	// ReconcileHandlers is the state of the reconcile handlers of the object, by handler id.
	ReconcileHandlers map[string]*reconcileHandlerState
	// Changes are the changes by others that the reconcile handlers have not noted yet; see [objectstate.Store.TakeForeignChanges].
	Changes []string
	// Loops describes the changes by which handlers cause their own calls; nil without such changes.
	Loops *loopguard.Loops
	// Background is the state of the daemons and timers of the object.
	Background *background.State
	// Resumed are the ids of the resume handlers that have finished in this process, until Handled is true. Their stored success is that of an earlier process.
	Resumed []string
	// FinalizerRemovals counts how often this process has removed the finalizer because no handler needs it.
	FinalizerRemovals int
	// Creation says where the creation of an object of the first listing has begun, until Handled is true.
	Creation creation
}

// maxFinalizerRemovals is the number of removals after which the finalizer is that of another client.
const maxFinalizerRemovals = 5

// isContested reports whether another client keeps adding the finalizer that the engine removes.
func (d *objectDetails) isContested() bool { return d.FinalizerRemovals >= maxFinalizerRemovals }

// creation is where the creation of an object has begun.
type creation int

const (
	unknownCreation creation = iota
	ownCreation              // in this process
	earlierCreation          // in an earlier process, which has called some of the handlers
)

// copy returns a copy that a worker does not change.
func (d *objectDetails) copy() *objectDetails {
	if d == nil {
		return nil
	}
	copied := *d
	copied.ReconcileHandlers = make(map[string]*reconcileHandlerState, len(d.ReconcileHandlers))
	for id, st := range d.ReconcileHandlers {
		copied.ReconcileHandlers[id] = new(*st)
	}
	if d.Memory.Remote != nil {
		copied.Memory.Remote = new(*d.Memory.Remote)
	}
	if d.Loops != nil {
		copied.Loops = new(*d.Loops)
	}
	return &copied
}

type (
	objectState = objectstate.State[objectMemory]
	objectStore = objectstate.Store[objectMemory]
)

// reconcileHandlerState is the state of one reconcile handler of one object. It is kept in memory only: after a restart, all reconcile handlers are called.
type reconcileHandlerState struct {
	record    progress.Record // the attempts since the last success or permanent failure
	failures  int             // the failures since the last success, for the backoff
	due       time.Time       // the time of the next call without a change; zero if there is none
	priority  *int            // the priority of that call in the queue; nil for the present one
	dirty     bool            // there was a change since the last call
	succeeded bool            // the last call has succeeded
	failed    bool            // its permanent failure was reported
}

// failure is an error that has ended a reconcile.
type failure struct {
	err        error
	isExpected bool // it was a conflict, throttling, or a suspension of the process
}

// tombstone is the last known state of an object that no longer exists. Only the worker of the key uses it, except for pending.
type tombstone struct {
	last  client.Object // with the changes by its delete handlers
	known *objectState
	memos *objectstate.Memos
	// state contains the records of the delete handlers. It is nil until the API server has confirmed that the object does not exist.
	state *progress.State
	// pending describes the handlers that have not succeeded, for explanations.
	pending atomic.Pointer[[]explain.Handler]
}

// eventQueue contains the unfinished events and the unwritten changes of the event handlers of a key. It is kept in memory only: after a restart, the
// event handlers are called for the objects of the first listing.
type eventQueue struct {
	events  []*eventInProgress // in the order of their arrival; the first one waits for the next attempt of a handler
	changes []eventChange      // changes that the next reconcile writes
}

// eventInProgress is one observed event with the progress of its handlers.
type eventInProgress struct {
	objectstate.Event
	memos   *objectstate.Memos
	records map[string]progress.Record // of the handlers that were called
}

// eventChange is a change that an event handler has made to the object of its event.
type eventChange struct {
	uid     types.UID
	id      string
	doc     patch.MergePatch
	untyped bool           // doc may have fields that the Go type lacks
	base    map[string]any // the JSON form of the object of the event
}

// panicChange is the effect of an attempt on the condition that reports panics.
type panicChange struct {
	id   string
	text string // the first line of the panic; empty after a success
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

// unlock ends the reconcile: it drops empty details and unlocks the state.
func (r *reconciliation) unlock() {
	if d := r.details; d.Memory == (commit.Memory{}) && d.Pending == nil && !d.Settled && len(d.ReconcileHandlers)+len(d.Changes) == 0 && d.Loops == nil && d.Background == nil &&
		len(d.Resumed) == 0 && d.Creation == unknownCreation && d.FinalizerRemovals == 0 {
		r.known.Worker.Details = nil
	}
	r.known.Unlock()
}

// setCause continues the reconcile with a cause. Only writes change the cause otherwise.
func (r *reconciliation) setCause(c cause.Cause) { r.session.Cause = c }

// noteHandled is called when a cycle has ended in this process. Resume handlers are then not called any more. But if an earlier process has begun the creation
// of the object, it may have called a handler for creations and resumes that this process has not called.
func (r *reconciliation) noteHandled() {
	isLeft := func(id string) bool {
		handler, _ := r.engine.Handlers.Get(id)
		return handler.Creates() && handler.Resumes() && !slices.Contains(r.details.Resumed, id)
	}
	if r.session.Cause.Reason == cause.Create && r.details.Creation == earlierCreation && slices.ContainsFunc(r.matching.handlers, isLeft) {
		return
	}
	r.known.Worker.Handled, r.details.Resumed, r.details.Creation = true, nil, unknownCreation
}

// backgroundState returns the state of the daemons and timers of the object, and creates it if there is none.
func (r *reconciliation) backgroundState() *background.State {
	if r.details.Background == nil {
		r.details.Background = &background.State{}
	}
	return r.details.Background
}

// subject is the input of the filters of cause handlers.
func (r *reconciliation) subject() match.Input {
	return match.Input{Object: r.draft.Content(), HasCause: true, Old: r.session.Cause.Old, New: r.session.Cause.New, OldUnknown: !r.session.Cause.IsOldKnown()}
}

// hasNothingToWrite reports whether no handler is selected and no data must be written. This is the most frequent case when the operator starts.
func (r *reconciliation) hasNothingToWrite() bool {
	return len(r.matching.selection.Selected) == 0 && r.session.IsAtRest()
}

// identify sets the apiVersion and the kind, which typed clients drop. It does not write to an unstructured object that has them, because its content may
// be shared.
func (e *Engine) identify(obj client.Object) {
	if obj.GetObjectKind().GroupVersionKind() != e.GVK {
		obj.GetObjectKind().SetGroupVersionKind(e.GVK)
	}
}

// latest returns a copy of the newest known state of an object. For a deleted object, this is the last known state.
func (e *Engine) latest(obj client.Object) client.Object {
	newest := e.states.Newest(obj.GetUID())
	if newest == nil {
		newest = obj
	}
	copied := newest.DeepCopyObject().(client.Object)
	e.identify(copied)
	return copied
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

// findFault reads an object without its Go type. It returns the object, and the reason why it does not decode. The fault is nil if the object decodes, or if it
// cannot be read.
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

// exists asks the API server whether an object exists. It reads only the metadata, because the object may have left the cache as it no longer decodes into its
// Go type.
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

// hasFinalizer reports whether an object has the finalizer of the operator. Operators of one kind often share kopf's name. Who never adds it leaves it to the
// others.
func (e *Engine) hasFinalizer(obj client.Object) bool {
	return e.usesFinalizer && slices.Contains(obj.GetFinalizers(), e.Finalizer)
}

// ReportLeftFinalizers is called after the first listing. If the engine never removes the finalizer, ReportLeftFinalizers logs how many objects have it: an
// earlier version of the operator may have added it for a delete handler.
func (e *Engine) ReportLeftFinalizers() {
	if e.usesFinalizer {
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

// isLeaving reports whether the object of a key is being released, or was released.
func (e *Engine) isLeaving(key types.NamespacedName) bool {
	if e.Shard == nil {
		return false
	}
	if e.releases.IsDone(key) {
		return true
	}
	obj := e.states.Observed(key)
	return obj != nil && e.Shard.Leaves(obj)
}

// PausedAnnotation is the annotation that pauses one object.
const PausedAnnotation = "kopf-runtime.dev/paused"

func (e *Engine) paused(namespace string) bool {
	if e.Pause == nil {
		return false
	}
	paused, _ := e.Pause.Paused(namespace)
	return paused
}

// IsObjectPaused reports whether the annotation of an object pauses it. A value that [strconv.ParseBool] does not accept has no effect.
func IsObjectPaused(obj client.Object) bool {
	paused, err := strconv.ParseBool(obj.GetAnnotations()[PausedAnnotation])
	return err == nil && paused
}

// logOf returns the logger for an object outside of reconciles.
func (e *Engine) logOf(obj client.Object) logr.Logger {
	return lazylog.New(e.Log).WithValues("controller", e.Name, "kind", e.GVK.Kind, "namespace", obj.GetNamespace(), "name", obj.GetName(), "uid", obj.GetUID())
}

// handlerIDs returns the ids of the handlers of all kinds.
func (e *Engine) handlerIDs() []string {
	return slices.Concat(e.Handlers.IDs(), e.EventHandlers.IDs(), e.ReconcileHandlers.IDs(), e.BackgroundHandlers.IDs(), e.Indexes.IDs())
}

// The priorities in the queue. Changes by users have priority 0, objects of the first listing have [handler.LowPriority], and promoted objects have 1.
const (
	triggered = -1                      // by related objects: one of them may trigger thousands of others
	retrying  = handler.LowPriority / 2 // after a delay
)

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

// earlier returns the shorter one of two delays; 0 stands for none.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
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

// isDue reports whether the handler must be called. If held is true, changes are not handled yet.
func (st *reconcileHandlerState) isDue(at time.Time, held bool) bool {
	return st.dirty && !held || !st.due.IsZero() && !st.due.After(at)
}

// isRetrying reports whether the last attempt has failed and is repeated after a delay.
func (st *reconcileHandlerState) isRetrying() bool { return !st.record.Delayed.IsZero() }
