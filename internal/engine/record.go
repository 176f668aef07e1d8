package engine

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/causation"
	"github.com/kopf-runtime/kopf-runtime/internal/patching"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/diff"
)

// record makes the framework's part of a write: the records while the cause is being handled; when
// it is over, their removal and the new baseline.
func (e *Engine) record(c *cycle, changed patching.Document, handled map[string]any) (patching.Document, error) {
	kept := c.before.DeepCopyObject().(client.Object)
	var err error
	switch {
	case c.reason == causation.Noop:
		err = c.state.Retire(e.Store, kept, now())
	case c.closed():
		err = errors.Join(c.state.Purge(e.Store, kept), e.close(c, kept, handled))
	case c.reason.Handled():
		err = errors.Join(c.state.Save(e.Store, kept), e.amend(c, kept, changed))
	}
	if err != nil {
		return nil, fmt.Errorf("recording progress: %w", err)
	}
	content, err := patching.Content(kept)
	if err != nil {
		return nil, fmt.Errorf("recording progress: %w", err)
	}
	return patching.Between(c.content, content), nil
}

// close stores what was handled: the essence that the pass began with, and what the handlers have
// changed themselves; not what others have changed meanwhile. A deleted object needs none.
func (e *Engine) close(c *cycle, kept client.Object, handled map[string]any) error {
	unchanged := c.facts.Known && !c.facts.Changed && !c.edited && diff.Equal(c.now, handled)
	if c.reason == causation.Delete || unchanged || c.then != nil && diff.Equal(c.then, handled) {
		return nil
	}
	return e.remember(kept, handled)
}

// amend adds what handlers have changed to the last handled essence, before the cause is over: in the
// next pass it would look like somebody's change.
func (e *Engine) amend(c *cycle, kept client.Object, changed patching.Document) error {
	if c.then == nil || c.reason == causation.Delete {
		return nil
	}
	then := e.folded(c.then, changed)
	if diff.Equal(c.then, then) {
		return nil
	}
	return e.remember(kept, then)
}

// correct makes good for a server that has altered what handlers have changed (it has dropped an
// unknown field, say): else the difference would be an update, again and again.
func (e *Engine) correct(ctx context.Context, c *cycle, theirs patching.Document) error {
	essential := e.folded(map[string]any{}, theirs)
	if len(essential) == 0 || c.reason == causation.Delete {
		return nil
	}
	altered := patching.Document(essential).Missing(c.content)
	if len(altered) == 0 {
		return nil
	}
	log.FromContext(ctx).Info("Warning: the API server has not taken all that handlers have changed; "+
		"does the schema of the kind know these fields?", "fields", fmt.Sprint(diff.Of(nil, map[string]any(altered))))
	observed := patching.Document(essential).Observed(c.content)
	c.now = e.folded(c.now, observed)
	remembered := c.now
	if !c.closed() {
		if c.then == nil {
			return nil
		}
		c.then = e.folded(c.then, observed)
		remembered = c.then
	}
	kept := c.before.DeepCopyObject().(client.Object)
	if err := e.remember(kept, remembered); err != nil {
		return err
	}
	content, err := patching.Content(kept)
	if err != nil {
		return err
	}
	written, err := e.send(ctx, c, &patching.Change{
		Before: c.before, Content: c.content, Ours: patching.Between(c.content, content),
	})
	if err != nil || written == nil {
		return err
	}
	return c.begin(written)
}
