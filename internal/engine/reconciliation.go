package engine

import (
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// reconciliation is the state of one reconcile of one object. Only the worker of the object uses it. Each phase adds its results; the values of
// earlier phases change only after a write, when the reconcile continues with the object of the response.
type reconciliation struct {
	known *objectState

	// Observed.
	before      client.Object  // the object as it was read, or as our last write has left it; never changed
	content     map[string]any // the JSON form of before; never changed
	gone        bool           // before is the last known state of an object that no longer exists
	leaving     bool           // the object has left the selection of the cache: there is no later reconcile
	pauses      int64          // the number of pauses before the object was read
	suspensions int64          // the number of suspensions of the process before the object was read
	afterEpoch  bool           // the cache had reached the epoch before the object was read

	// The overlay: progress that the API server has rejected, or that is stored outside of the object.
	overlaid       func(*objectState, map[string]any) map[string]any // Engine.overlaid; nil until the overlay applies
	retriesOverlay bool                                              // the overlay must be sent again, even if nothing is added to it
	triesOverlay   bool                                              // the overlay is part of the change that is being written
	overlaidObject client.Object                                     // the object with the overlay
	storedObject   client.Object                                     // the object without the overlay
	storedContent  map[string]any                                    // the JSON form of storedObject
	sent           *sentChange                                       // a change whose framework's part has not been saved; nil if there is none
	conflicting    bool                                              // another operator has saved the progress in the meantime

	// Detected.
	state       *progress.State
	cause       cause.Cause
	mergedEdits []*edit       // the edits by daemons and timers that are part of cause.Old
	old         client.Object // the object of cause.Old; nil until it is needed

	// Planned.
	view          *invoke.View // for the predicates of handlers
	matching      []string     // the handlers whose filters accept the object
	backgroundIDs []string     // the daemons and timers whose filters accept the object
	selection     plan.Selection
	plan          plan.Plan

	// Invoked.
	object               client.Object  // before with the changes of handlers
	current              map[string]any // the JSON form of object
	needsRebase          bool           // before was written while a handler was running: its changes must be rebased
	called               []string       // the handlers that were called in this reconcile
	finishedSubs         []string       // the finished sub-handlers of handlers that wait for them
	handlerPatches       []*handlerPatch
	edited               bool          // changes of handlers were written in this reconcile
	workTime             time.Duration // the time in handlers since the last write
	unsaved              bool          // handlers were called since the last write
	aborted              bool          // a deletion, a pause or a rejection has ended the calls of handlers early
	writeErr             error         // the error of a write between handlers
	hasReconcileHandlers bool          // the filters of a reconcile handler accept the object

	// Reported.
	pendingEvents    []func() // post the Events about attempts, after the write
	reconcileOutcome []reconcileOutcome
	conditionsSet    []string // the types of conditions that handlers have set themselves
	panicChanges     []panicChange
	reportRejected   bool // the API server has rejected the conditions

	// Committed.
	runEnded           bool             // all calls of cause handlers have been made: the next write is the last one
	waitsForBackground bool             // the object is being deleted, and its daemons and timers have not stopped
	isolation          *isolation       // the patches are being written one by one; nil if they are not
	revertPatch        patch.MergePatch // reverts what was written of rejected patches
	change             *patch.Change    // the change that is being written; nil if there is none
	reduced            *patch.Change    // an earlier form of the change, with fields that another client has changed
	writeFailures      int              // the number of failed attempts to write the change
	stored             []byte           // the baseline that is being written; nil if there is none
	handled            map[string]any   // the essence that is handled after the write

	// For daemons and timers, which have a reconciliation of their own.
	grace   *grace
	written client.Object // the object after the last write
}

// handlerPatch is one attempt of a handler with its changes, which are waiting to be written.
type handlerPatch struct {
	id               string
	policy           progress.Policy
	before           progress.Record // the record before the attempt
	outcome          progress.Outcome
	doc              patch.MergePatch       // the changes and the result
	untyped          bool                   // doc may have fields that the Go type lacks
	base             map[string]any         // the JSON form of the object that the handler has received
	reconcileHandler *reconcileHandlerState // the state of a reconcile handler; nil for cause handlers
	isReport         bool                   // doc contains the conditions that report handlers
	open             bool                   // the sub-handlers are being called: the outcome is not final
	refusal          error                  // the rejection of doc, while the sub-handlers are called
	singleRequest    *patch.Change          // the request with this patch alone; nil if there is none
}

// isFinished reports whether the cause is over: all handlers have finished, and the daemons and timers of a deleted object have stopped.
func (r *reconciliation) isFinished() bool {
	return r.runEnded && !r.waitsForBackground && r.cause.Reason.HasHandlers() && r.state.Done()
}

// subject is the input of the filters of cause handlers.
func (r *reconciliation) subject() match.Input {
	return match.Input{Object: r.content, HasCause: true, Old: r.cause.Old, New: r.cause.New}
}

// setBase bases the reconcile on a state of the object.
func (r *reconciliation) setBase(obj client.Object) error {
	if r.overlaidObject != nil && obj == r.overlaidObject {
		obj = r.storedObject // the overlay may have changed
	}
	content, err := patch.Converted{Object: r.before, Content: r.content}.ContentOf(obj)
	if err != nil {
		return fmt.Errorf("the object has no JSON form: %w", err)
	}
	return r.setConverted(obj, content)
}

// setConverted bases the reconcile on a state of the object with this JSON form.
func (r *reconciliation) setConverted(obj client.Object, content map[string]any) error {
	r.before, r.content = obj, content
	if err := r.applyOverlay(); err != nil {
		return fmt.Errorf("the rejected progress does not fit the type of the object: %w", err)
	}
	r.object, r.current, r.needsRebase = r.before, r.content, false
	return nil
}

// continueFrom bases the pending changes on a newer state of the object.
func (r *reconciliation) continueFrom(written client.Object) error {
	content, err := patch.Converted{Object: r.before, Content: r.content}.ContentOf(written)
	if err != nil {
		return err
	}
	for _, s := range r.handlerPatches {
		s.doc = s.doc.Rebase(r.content, content)
	}
	r.before, r.content, r.needsRebase = written, content, true
	return nil
}

// rebased converts changes of the state that handlers have received to changes of the object, which was written while a handler was running.
func (r *reconciliation) rebased(doc patch.MergePatch) patch.MergePatch {
	if !r.needsRebase {
		return doc
	}
	written := r.content
	for _, s := range r.handlerPatches { // earlier handlers have changed the object, too
		written = s.doc.Apply(written)
	}
	return doc.Rebase(r.current, written)
}

// hasNothingToWrite is a cheap check for the most frequent case at a start of the operator: the object is handled completely.
func (r *reconciliation) hasNothingToWrite() bool {
	_, delayed := r.state.StaleAfter(now())
	return len(r.selection.Selected)+len(r.handlerPatches) == 0 && !r.cause.OutdatedBaseline && !r.cause.StalePin && !r.retriesOverlay && !delayed && !r.state.HasStale(now())
}
