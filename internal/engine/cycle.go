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
type cycle struct {
	// load
	memory  *objectState
	before  client.Object  // as it was read, or as our last write has left it; never changed
	content map[string]any // its JSON form; never changed
	gone    bool           // it is the last state of an object that exists no more
	parting bool           // the object goes out of sight: nobody will come back to it
	pauses  int64          // how many there were before

	suspensions int64 // of the process, before the object was read
	afterEpoch  bool  // the cache had reached the epoch before the object was read

	// overlay
	overlaid       bool           // the overlay in the memory applies
	retriesOverlay bool           // it must be sent again, even if nothing is added to it
	triesOverlay   bool           // it is part of the change that is being written
	laid, bare     client.Object  // the object with the overlay, and without it
	bareContent    map[string]any // the JSON form of the latter

	// detect
	state     *progress.State
	cause     cause.Cause
	grace     *grace        // of background work, for its last change
	deposited client.Object // what background work has made of the object
	apart     bool          // before is not what handlers were shown: it was written while one was at work
	absorbed  []*edit       // of background work, for which it is no update; the baseline is to have them
	old       client.Object // made of the last-handled essence, when the first handler is called

	// filter, match, plan
	matching  []string     // handlers whose filters accept the object
	view      *invoke.View // for the predicates of handlers
	attended  []string     // daemons and timers whose filters accept the object
	selection plan.Selection
	plan      plan.Plan
	called    []string // handlers that were called in this reconcile

	// run
	object  client.Object  // before, with what handlers have changed since
	current map[string]any // its JSON form
	shares  []*share       // of handlers in what is to be written
	edited  bool           // handlers have changed the object in this pass
	worked  time.Duration  // by handlers, since the last write
	unsaved bool           // handlers were called since then
	fault   error          // of a write in the middle of the pass
	stopped bool           // the pass ends here, the rest is for the next one

	// report
	news       []func() // what is to be posted about how handlers have ended, once that stands
	told       []told   // how level-triggered handlers with conditions have ended
	leveled    bool     // the object is the business of one of those
	explicit   []string // conditions that handlers have set themselves
	unreported bool     // the server does not take what was to be reported

	// finish
	final   bool             // nothing is left to call in this pass
	waits   bool             // it is being deleted, and what accompanies it has not ended yet
	sorting *sorting         // the shares are being sent one by one; nil: they are not
	undo    patch.MergePatch // takes back what of refused shares was written all the same
	change  *patch.Change    // what is being written; nil: nothing is
	reduced *patch.Change    // an earlier form of it, with fields that another client has changed
	faults  int              // how often it could not be
	stored  []byte           // the baseline that is being written; nil: none is
	handled map[string]any   // the essence that is handled when it is
}

// A share is what one handler wants to be written.
type share struct {
	id      string
	policy  progress.Policy
	before  progress.Record // its record before the attempt
	outcome progress.Outcome
	doc     patch.MergePatch // what it has changed, and its result
	raw     bool             // it has a result, which the Go type may lack
	base    map[string]any   // the JSON form of what it was shown
	level   *levelState      // of a level-triggered handler, which has no record
	report  bool             // it is no handler's, but what conditions say about them
	open    bool             // its sub-handlers are being called: how it ends is not known yet
	refusal error            // of its changes, while the sub-handlers are called
	alone   *patch.Change    // the request with only this handler's changes; nil if there is none
}

// closed reports whether the cause is over: all its handlers are done, and nothing accompanies an object that
// goes.
func (c *cycle) closed() bool {
	return c.final && !c.waits && c.cause.Reason.HasHandlers() && c.state.Done()
}

// subject is what the filters of handlers for causes look at.
func (c *cycle) subject() match.Input {
	return match.Input{Object: c.content, HasCause: true, Old: c.cause.Old, New: c.cause.New}
}
