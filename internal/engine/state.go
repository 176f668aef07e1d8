package engine

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/background"
	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/loopguard"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

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
	held       Hold               // keeps back the handlers of the cause
	result     reconcile.Result
	old        client.Object // the object of Cause.Old; nil until it is needed

	matching matching
	calls    calls
	report   report
}

// matching contains the handlers whose filters accept the object.
type matching struct {
	detected   cause.Reason // the reason of the cause before it is known whether a handler matches
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
	handledLoops  string        // the version up to which the reconcile handles the changes by which handlers may cause their own calls; empty if it handles none
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

// unlock ends the reconcile: it drops empty details and unlocks the state.
func (r *reconciliation) unlock() {
	if d := r.details; d.Memory == (commit.Memory{}) && d.Pending == nil && !d.Settled && len(d.ReconcileHandlers)+len(d.Changes) == 0 && d.Loops == nil && d.Background == nil &&
		len(d.Resumed) == 0 && d.Creation == unknownCreation && d.FinalizerRemovals == 0 {
		r.known.Worker.Details = nil
	}
	r.known.Unlock()
}

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

// PausedAnnotation is the annotation that pauses one object.
const PausedAnnotation = "kopf-runtime.dev/paused"

// IsObjectPaused reports whether the annotation of an object pauses it. A value that [strconv.ParseBool] does not accept has no effect.
func IsObjectPaused(obj client.Object) bool {
	paused, err := strconv.ParseBool(obj.GetAnnotations()[PausedAnnotation])
	return err == nil && paused
}

// The priorities in the queue. Changes by users have priority 0, objects of the first listing have [handler.LowPriority], and promoted objects have 1.
const (
	triggered = -1                      // by related objects: one of them may trigger thousands of others
	retrying  = handler.LowPriority / 2 // after a delay
)

func now() time.Time { return time.Now() }

func hasEnded(ctx context.Context) bool { return ctx.Err() != nil }

// isDue reports whether the handler must be called. If held is true, changes are not handled yet.
func (st *reconcileHandlerState) isDue(at time.Time, held bool) bool {
	return st.dirty && !held || !st.due.IsZero() && !st.due.After(at)
}

// isRetrying reports whether the last attempt has failed and is repeated after a delay.
func (st *reconcileHandlerState) isRetrying() bool { return !st.record.Delayed.IsZero() }

// lastCalls are the calls of reconcile handlers for an object that no longer exists. Only the worker of the key uses them.
type lastCalls struct {
	last     client.Object
	memos    *objectstate.Memos
	handlers map[string]*reconcileHandlerState
}
