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

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/background"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/loopguard"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// handlerKey identifies data about a handler and an object.
type handlerKey struct {
	uid types.UID
	id  string
}

// reconciliation is one reconcile of one object. Only the object's worker uses it. Each of its parts belongs to one phase.
type reconciliation struct {
	engine     *Engine
	session    *commit.Session // the cause and the records
	draft      *commit.Draft   // the object with the pending changes
	known      *objectState
	details    *objectDetails     // of known
	afterEpoch bool               // the cache had reached the epoch before the object was read
	edits      []*background.Edit // daemons' and timers' edits that are part of Cause.Old
	held       Hold               // holds the cause's handlers
	result     reconcile.Result
	old        client.Object // the object of Cause.Old; nil until it is needed

	matching  matching
	requested requestedCalls
	bySchema  bool // the cause is an update that only a change of the schema has caused, and no handler was called for it yet
	// endedBefore are the handlers with revisions whose records had finished before this reconcile.
	endedBefore []string
	due         []string // the matching handlers with newer revisions than the object was handled with
	calls       calls
	report      report
}

// matching contains the handlers whose filters accept the object.
type matching struct {
	detected   cause.Reason // the cause's reason, before it is known whether a handler matches
	view       *invoke.View // for handlers' predicates
	handlers   []string     // the cause handlers
	selection  plan.Selection
	background []string // the daemons and timers
	reconciles bool     // a reconcile handler matches
}

// calls contains the plan and the calls of cause handlers in this reconcile.
type calls struct {
	plan          plan.Plan
	called        []string
	top           string        // the handler being called, or whose sub-handlers are being called
	workTime      time.Duration // the time in handlers since the last write
	unsaved       bool          // handlers were called since the last write
	aborted       bool          // no more handlers are called in this reconcile, because of a deletion, a pause or a rejection
	handledLoops  string        // up to this version, the reconcile handles changes that make handlers call themselves; empty if none
	relatedChange bool          // a related object has changed since the last reconcile; only set if this can call cause handlers
	err           error         // the error of a write between handlers
}

// report is what the reconcile's conditions and Events report.
type report struct {
	attempts     []attempt
	posted       int           // Events are posted for this many attempts
	panicChanges []panicChange // of daemons and timers
}

// attempt is a finished attempt of a cause handler or a reconcile handler. It is reported only after the write, because the attempt fails
// if the API server rejects the handler's changes.
type attempt struct {
	*commit.HandlerPatch
	conditionType string                 // of the condition that reports the handler; empty if there is none
	after         map[string]any         // the JSON form of the object after the attempt
	reconciles    *reconcileHandlerState // the state of the reconcile handler; nil for a cause handler
}

// objectMemory is what the process remembers about one object. Only the object's worker uses it.
type objectMemory struct {
	// Handled is true once the object has completed a cycle in this process. Resume handlers aren't called any more after that.
	Handled bool
	// SeenAlive is true if this process has seen the object without a deletion timestamp.
	SeenAlive bool
	// OptionalDeleteCalled is true once the optional delete handlers were called.
	OptionalDeleteCalled bool
	// SeenSinceStart is true once this process has seen a version of the object that is at least as new as the start of the process.
	SeenSinceStart bool
	// PausesAtReconcile is the number of pauses before the object's last reconcile.
	PausesAtReconcile int32
	// Details is nil if it would be empty, as for most objects that this process hasn't written.
	Details *objectDetails
}

// objectDetails is what the process remembers about an object that it has written, or that has daemons, timers or reconcile handlers.
type objectDetails struct {
	// Settled is true if the awaited write has completed a cycle and left nothing to do. The next reconcile resets it.
	Settled bool
	// Memory is what package commit remembers about writes to the object. All of the object's sessions share it.
	Memory commit.Memory
	// Pending is a reconcile whose write has failed. The write is retried before the next decision.
	Pending *reconciliation
	// ReconcileHandlers is the state of the object's reconcile handlers, by handler id.
	ReconcileHandlers map[string]*reconcileHandlerState
	// Changes are the changes by others that the reconcile handlers have not noted yet; see [objectstate.Store.TakeForeignChanges].
	Changes []string
	// Loops describes the changes with which handlers cause their own calls, and is nil without such changes.
	Loops *loopguard.Loops
	// Background is the state of the object's daemons and timers.
	Background *background.State
	// Resumed are the ids of the resume handlers that have finished in this process, until Handled is true. If others have a stored
	// success, it is from an earlier process.
	Resumed []string
	// FinalizerRemovals counts how often this process has removed the finalizer because no handler needed it.
	FinalizerRemovals int
	// NoteDropped is true if another client has removed the note about revisions from a write.
	NoteDropped bool
	// Creation says which process began to handle the creation of an object of the first list, until Handled is true.
	Creation creation
}

// maxFinalizerRemovals is the number of removals after which the finalizer is considered another client's.
const maxFinalizerRemovals = 5

// isContested reports whether another client keeps adding the finalizer that the engine removes.
func (d *objectDetails) isContested() bool { return d.FinalizerRemovals >= maxFinalizerRemovals }

// creation says which process began to handle an object's creation.
type creation int

const (
	unknownCreation creation = iota
	ownCreation              // this one
	earlierCreation          // an earlier one, which has called some of the handlers
)

// copy returns a copy that no worker changes.
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

// reconcileHandlerState is the state of one reconcile handler for one object. It is kept in memory only, so all reconcile handlers are
// called after a restart.
type reconcileHandlerState struct {
	record    progress.Record // the attempts since the last success or permanent failure
	failures  int             // the failures since the last success, for the backoff
	due       time.Time       // when the next call is due even without a change; zero if there is none
	priority  *int            // that call's priority in the queue; nil keeps the current one
	dirty     bool            // there was a change since the last call
	succeeded bool            // the last call has succeeded
	failed    bool            // its permanent failure was reported
}

// failure is an error that a reconcile has failed with.
type failure struct {
	err        error
	isExpected bool // it was a conflict, throttling, or a suspension of the process
}

// tombstone is the last known state of an object that no longer exists. Only the key's worker uses it, except for pending.
type tombstone struct {
	last  client.Object // with the changes that its delete handlers made
	known *objectState
	memos *objectstate.Memos
	// state contains the delete handlers' records. It is nil until the API server has confirmed that the object doesn't exist.
	state *progress.State
	// pending describes the handlers that haven't succeeded, for explanations.
	pending atomic.Pointer[[]explain.Handler]
}

// eventQueue contains a key's unfinished events and its event handlers' unwritten changes. It is kept in memory only: after a restart, the
// event handlers are called for the objects of the first list.
type eventQueue struct {
	events  []*eventInProgress // in order of arrival; the first one waits for a handler's next attempt
	changes []eventChange      // the next reconcile writes them
}

// eventInProgress is an observed event with its handlers' progress.
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
	base    map[string]any // the JSON form of the event's object
}

// panicChange is what an attempt changes in the condition that reports panics.
type panicChange struct {
	id   string
	text string // the first line of the panic; empty after a success
}

// unlock drops empty details and unlocks the state when the reconcile is done.
func (r *reconciliation) unlock() {
	if d := r.details; d.Memory == (commit.Memory{}) && d.Pending == nil && !d.Settled && len(d.ReconcileHandlers)+len(d.Changes) == 0 && d.Loops == nil && d.Background == nil &&
		len(d.Resumed) == 0 && d.Creation == unknownCreation && d.FinalizerRemovals == 0 && !d.NoteDropped {
		r.known.Worker.Details = nil
	}
	r.known.Unlock()
}

// noteHandled is called when a cycle is completed in this process. Resume handlers aren't called any more after that. The exception is an
// object whose creation an earlier process began to handle: that one may have called a handler for creations and resumes that this process
// still has to call.
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

// backgroundState returns the state of the object's daemons and timers, and creates it if necessary.
func (r *reconciliation) backgroundState() *background.State {
	if r.details.Background == nil {
		r.details.Background = &background.State{}
	}
	return r.details.Background
}

// subject returns the filter input for cause handlers.
func (r *reconciliation) subject() match.Input {
	return match.Input{Object: r.draft.Content(), HasCause: true, Old: r.session.Cause.Old, New: r.session.Cause.New, OldUnknown: !r.session.Cause.IsOldKnown()}
}

// hasNothingToWrite reports whether no handler is selected and no data must be written, which is the usual case when the operator starts.
func (r *reconciliation) hasNothingToWrite() bool {
	return len(r.matching.selection.Selected) == 0 && r.session.IsAtRest()
}

// PausedAnnotation is the annotation that pauses a single object.
const PausedAnnotation = "kopf-runtime.dev/paused"

// IsObjectPaused reports whether an object's annotation pauses it. A value that [strconv.ParseBool] doesn't accept has no effect.
func IsObjectPaused(obj client.Object) bool {
	paused, err := strconv.ParseBool(obj.GetAnnotations()[PausedAnnotation])
	return err == nil && paused
}

// The priorities in the queue. Users' changes have priority 0, objects of the first list have [handler.LowPriority], and promoted objects
// have 1.
const (
	triggered = -1                      // by related objects: one of them may trigger thousands of others
	retrying  = handler.LowPriority / 2 // after a delay
)

func now() time.Time { return time.Now() }

func hasEnded(ctx context.Context) bool { return ctx.Err() != nil }

// isDue reports whether the handler must be called. If held is true, changes must wait.
func (st *reconcileHandlerState) isDue(at time.Time, held bool) bool {
	return st.dirty && !held || !st.due.IsZero() && !st.due.After(at)
}

// isRetrying reports whether the last attempt has failed and waits to be retried.
func (st *reconcileHandlerState) isRetrying() bool { return !st.record.Delayed.IsZero() }

// lastCalls are the calls of reconcile handlers for an object that no longer exists. Only the key's worker uses them.
type lastCalls struct {
	last     client.Object
	memos    *objectstate.Memos
	handlers map[string]*reconcileHandlerState
}
