package engine

import (
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/patching"
)

// A companion is what the worker and the background work of one object know together.
type companion struct {
	mu      sync.Mutex
	essence string  // digest of the essence, as it was last seen or made by ourselves
	edits   []*edit // of the essence, which the baseline does not have yet
}

// An edit is what background work changes in the essence of its object.
type edit struct {
	base    map[string]any // the JSON form of what it was made for
	doc     patching.Document
	version string // of the object with it; empty while it is being written
}

// companion returns that of the object, a new one if there is none.
func (c *cycle) companion() *companion {
	known, ok := c.memory.Background.(*companion)
	if !ok {
		known = &companion{}
		c.memory.Background = known
	}
	return known
}

// sees takes note of an essence, and reports whether somebody else has changed it.
func (a *companion) sees(digest string) (changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed = a.essence != "" && a.essence != digest
	a.essence = digest
	return changed
}

// expects takes note that we change an essence ourselves.
func (a *companion) expects(from, to string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.essence == from {
		a.essence = to
	}
}

func (a *companion) begin(one *edit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.edits = append(a.edits, one)
}

// settle says what has become of an edit: what the server has made of it, and in which version.
func (a *companion) settle(one *edit, observed patching.Document, version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one.doc, one.version = observed, version
}

func (a *companion) drop(some ...*edit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.edits = slices.DeleteFunc(a.edits, func(one *edit) bool { return slices.Contains(some, one) })
}

// visible are the edits that a state of the object shows, in order, with copies of what they are.
func (a *companion) visible(obj client.Object, content map[string]any) (edits []*edit, copies []edit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.edits {
		if one.version == "" && len(one.doc.Missing(content)) > 0 || one.version != "" && older(obj.GetResourceVersion(), one.version) {
			continue
		}
		edits, copies = append(edits, one), append(copies, *one)
	}
	return edits, copies
}

// touch tells the timers of the object when its essence has changed, and not by ourselves: they wait for
// it to be idle again, and those that have failed for good have another chance (B-41).
func (e *Engine) touch(c *cycle) {
	if c.companion().sees(digestOf(c.live)) {
		e.supervisor.Touch(c.before.GetUID())
	}
}

// absorb takes what background work has changed in the essence for handled: it is no update (B-13).
func (e *Engine) absorb(c *cycle, same bool) {
	known, ok := c.memory.Background.(*companion)
	if !ok {
		return
	}
	edits, copies := known.visible(c.before, c.content)
	if c.then == nil || same {
		known.drop(edits...) // there is nothing that it could be held against, or it is there
		return
	}
	for _, one := range copies {
		c.then = e.folded(one.base, c.then, one.doc)
	}
	c.absorbed, c.folds = edits, copies
}

// refolded does it for an essence that is kept besides.
func (e *Engine) refolded(c *cycle, k kept) kept {
	essence := e.essenceOf(k)
	if essence == nil || len(c.folds) == 0 {
		return k
	}
	for _, one := range c.folds {
		essence = e.folded(one.base, essence, one.doc)
	}
	return keptOf(essence, k)
}

// isAbsorbed is for what stands in the stored baseline by now.
func (c *cycle) isAbsorbed() {
	if known, ok := c.memory.Background.(*companion); ok && len(c.absorbed) > 0 {
		known.drop(c.absorbed...)
	}
	c.absorbed, c.folds = nil, nil
}
