package engine

import (
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/causation"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/patching"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/diff"
)

// record makes the framework's part of a write: the records while the cause is being handled; when
// it is over, their removal and the new baseline. The essence is that of what will have been handled.
func (e *Engine) record(c *cycle, handled map[string]any) (patching.Document, error) {
	kept := c.before.DeepCopyObject().(client.Object)
	err := error(nil)
	if c.closed() {
		err = errors.Join(c.state.Purge(e.Store, kept), e.close(c, kept, handled))
	} else {
		err = c.state.Save(e.Store, kept)
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
	if c.reason == causation.Delete || c.facts.Known && diff.Equal(c.then, handled) {
		return nil
	}
	text, err := essence.Encode(handled)
	if err != nil {
		return err
	}
	e.Baseline.Store(kept, text)
	return nil
}
