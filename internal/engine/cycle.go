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
	memory  *inventory.Memory
	before  client.Object  // as it was read, or as our last write has left it; never changed
	content map[string]any // its JSON form; never changed
	gone    bool           // it is the last state of an object that exists no more

	// detect
	facts  causation.Facts
	reason causation.Reason
	then   map[string]any // last handled essence; nil if there is none, or it was too large to keep
	now    map[string]any // present essence, with what handlers have changed
	diff   diff.Diff
	old    client.Object // made of then, when the first handler is called

	// match, plan
	selected []string
	joining  []string // those of the selected that resume, while the cause is another
	planned  []string
	state    *progress.State

	// run
	object  client.Object  // before, with what handlers have changed since
	current map[string]any // its JSON form
	shares  []share        // of handlers in what is to be written
	edited  bool           // handlers have changed the object in this pass
	worked  time.Duration  // by handlers, since the last write
	stopped bool           // the pass ends here, the rest is for the next one

	// finish
	final   bool              // nothing is left to call in this pass
	undo    patching.Document // takes back what of a refused share was written all the same
	change  *patching.Change  // what is being written; nil: nothing is
	handled map[string]any    // the essence that is handled when it is
}

// A share is what one handler wants to be written.
type share struct {
	id      string
	before  progress.Record // its record before the attempt
	outcome progress.Outcome
	doc     patching.Document // what it has changed, and its result
}

// closed reports whether the cause is over: all its handlers are done.
func (c *cycle) closed() bool { return c.final && c.state.Done() }
