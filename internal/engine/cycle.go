package engine

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/causation"
	"github.com/kopf-runtime/kopf-runtime/internal/inventory"
	"github.com/kopf-runtime/kopf-runtime/internal/patching"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A cycle is one object on its way through the engine. Each step adds what it finds out.
type cycle struct {
	// load
	before  client.Object  // as it was read, or as our last write has left it; never changed
	content map[string]any // its JSON form; never changed
	object  client.Object  // the handlers' copy
	memory  *inventory.Memory

	// detect
	facts  causation.Facts
	reason causation.Reason
	then   map[string]any // last handled essence; nil if there is none
	now    map[string]any // present essence, with our own changes folded in
	diff   diff.Diff

	// match, plan
	selected []string
	planned  []string
	state    *progress.State

	// run
	seen    client.Object // the handlers' copy as it was before the present one
	results map[string]any
	worked  time.Duration // by handlers, since the last write
	changes []changed     // by handlers, since the last write
	stopped bool          // the pass ends here, the rest is for the next one

	// finish
	final   bool             // nothing is left to call in this pass
	change  *patching.Change // what is being written; nil: nothing is
	handled map[string]any   // the essence that is handled when it is
}

// changed remembers a handler that has changed the object, in case the server does not accept it.
type changed struct {
	id     string
	before progress.Record
}

// closed reports whether the cause is over: all its handlers are done.
func (c *cycle) closed() bool { return c.final && c.state.Done() }
