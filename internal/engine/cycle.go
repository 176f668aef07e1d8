package engine

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A cycle is one object on its way through the engine. Each step adds what it finds out.
type reconciliation struct {
	// load
	known   *objectState
	before  client.Object  // as it was read, or as our last write has left it; never changed
	content map[string]any // its JSON form; never changed
	gone    bool           // it is the last state of an object that exists no more
	leaving bool           // the object goes out of sight: nobody will come back to it
	pauses  int64          // how many there were before

	suspensions int64 // of the process, before the object was read
	afterEpoch  bool  // the cache had reached the epoch before the object was read

	// overlay
	usesOverlay                  bool           // the overlay in the memory applies
	retriesOverlay               bool           // it must be sent again, even if nothing is added to it
	triesOverlay                 bool           // it is part of the change that is being written
	overlaidObject, storedObject client.Object  // the object with the overlay, and without it
	storedContent                map[string]any // the JSON form of the latter

	// detect
	state       *progress.State
	cause       cause.Cause
	grace       *grace        // of background work, for its last change
	written     client.Object // what background work has made of the object
	needsRebase bool          // before is not what handlers were shown: it was written while one was at work
	mergedEdits []*edit       // of background work, for which it is no update; the baseline is to have them
	old         client.Object // made of the last-handled essence, when the first handler is called

	// filter, match, plan
	matching      []string     // handlers whose filters accept the object
	view          *invoke.View // for the predicates of handlers
	backgroundIDs []string     // daemons and timers whose filters accept the object
	selection     plan.Selection
	plan          plan.Plan
	called        []string // handlers that were called in this reconcile

	// run
	object         client.Object   // before, with what handlers have changed since
	current        map[string]any  // its JSON form
	handlerPatches []*handlerPatch // of handlers in what is to be written
	edited         bool            // handlers have changed the object in this pass
	workTime       time.Duration   // by handlers, since the last write
	unsaved        bool            // handlers were called since then
	writeErr       error           // of a write in the middle of the pass
	stopped        bool            // the pass ends here, the rest is for the next one

	// report
	pendingEvents        []func()           // what is to be posted about how handlers have ended, once that stands
	reconcileOutcome     []reconcileOutcome // how level-triggered handlers with conditions have ended
	hasReconcileHandlers bool               // the object is the business of one of those
	conditionsSet        []string           // conditions that handlers have set themselves
	reportRejected       bool               // the server does not take what was to be reported

	// finish
	callsDone          bool             // nothing is left to call in this pass
	waitsForBackground bool             // it is being deleted, and what accompanies it has not ended yet
	isolation          *isolation       // the shares are being sent one by one; nil: they are not
	revertPatch        patch.MergePatch // takes back what of refused shares was written all the same
	change             *patch.Change    // what is being written; nil: nothing is
	reduced            *patch.Change    // an earlier form of it, with fields that another client has changed
	writeFailures      int              // how often it could not be
	stored             []byte           // the baseline that is being written; nil: none is
	handled            map[string]any   // the essence that is handled when it is
}

// A share is what one handler wants to be written.
type handlerPatch struct {
	id               string
	policy           progress.Policy
	before           progress.Record // its record before the attempt
	outcome          progress.Outcome
	doc              patch.MergePatch // what it has changed, and its result
	untyped          bool             // it has a result, which the Go type may lack
	base             map[string]any   // the JSON form of what it was shown
	reconcileHandler *reconcileState  // of a level-triggered handler, which has no record
	isReport         bool             // it is no handler's, but what conditions say about them
	open             bool             // its sub-handlers are being called: how it ends is not known yet
	refusal          error            // of its changes, while the sub-handlers are called
	singleRequest    *patch.Change    // the request with only this handler's changes; nil if there is none
}

// closed reports whether the cause is over: all its handlers are done, and nothing accompanies an object that
// goes.
func (r *reconciliation) isFinished() bool {
	return r.callsDone && !r.waitsForBackground && r.cause.Reason.HasHandlers() && r.state.Done()
}

// subject is what the filters of handlers for causes look at.
func (r *reconciliation) subject() match.Input {
	return match.Input{Object: r.content, HasCause: true, Old: r.cause.Old, New: r.cause.New}
}
