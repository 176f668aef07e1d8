package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/causation"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/patching"
)

// writeTimeout is how long one write may take. It is the only limit of the writes that are still to
// be made when the operator is stopping.
const writeTimeout = 10 * time.Second

// finish records and writes what the pass has achieved. If the cause is over, its records go, and
// what was handled becomes what later changes are told from.
func (e *Engine) finish(ctx context.Context, c *cycle) error {
	switch {
	case c.reason.Handled():
		c.final = true
	case c.reason == causation.Noop && c.state.Stored():
		c.final = true // what a reverted cause has left: its successes must not stand for later ones
	case c.reason == causation.Free:
		e.farewell(ctx, c)
		return nil
	default:
		return nil
	}
	if _, err := e.write(ctx, c); err != nil {
		return err
	}
	if c.closed() && len(c.selected) > 0 {
		sum := c.state.Summary()
		log.FromContext(ctx).Info("Handled", "reason", c.reason, "succeeded", sum.Succeeded, "failed", sum.Failed)
	}
	return nil
}

// write sends all that has changed since the last write, ours and the handlers'. If the server does
// not accept what handlers have changed, their attempts have failed, and the rest is written alone.
func (e *Engine) write(ctx context.Context, c *cycle) (client.Object, error) {
	if c.change == nil {
		change, handled, err := e.gather(c)
		if err != nil {
			return nil, err
		}
		c.change, c.handled = change, handled
	}
	written, err := e.send(ctx, c, c.change)
	var rejected *patching.RejectedError
	switch contested := errors.Is(err, patching.ErrContested); {
	case (contested || errors.As(err, &rejected)) && len(c.changes) > 0:
		e.withhold(ctx, c, err, contested)
		return e.write(ctx, c)
	case errors.Is(err, patching.ErrGone):
		c.memory.Unwritten, c.stopped = nil, true
		return nil, nil
	case err != nil:
		c.memory.Unwritten = c
		return nil, fmt.Errorf("writing the object: %w", err)
	}
	c.memory.Unwritten = nil
	c.memory.Handled = c.memory.Handled || c.reason.Handled() && c.closed()
	if written == nil {
		written = c.before
	}
	c.now, c.change = c.handled, nil
	c.results, c.changes, c.worked = nil, nil, 0
	return written, c.begin(written)
}

// send is the only way to the writer. It remembers the version, for the cache to catch up with. A
// stopping operator still writes what its handlers have done.
func (e *Engine) send(ctx context.Context, c *cycle, change *patching.Change) (client.Object, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	written, err := e.writer.Write(ctx, change)
	if err != nil || written == nil {
		return nil, err
	}
	e.identify(written)
	e.wrote(c, written)
	c.memory.Released = c.memory.Released || change.Release != "" && c.facts.Deleting
	return written, nil
}

// gather puts together what is to be written, and the essence that is handled by then.
func (e *Engine) gather(c *cycle) (*patching.Change, map[string]any, error) {
	change := &patching.Change{Before: c.before, Content: c.content}
	handled := c.now
	if len(c.changes) > 0 {
		content, err := patching.Content(c.object)
		if err != nil {
			return nil, nil, fmt.Errorf("the object has no JSON form: %w", err)
		}
		change.Theirs = patching.Between(c.content, content).Essential()
		handled = essence.Fold(c.now, change.Theirs, e.cleaners()...)
	}
	ours, err := e.record(c, handled)
	if err != nil {
		return nil, nil, err
	}
	change.Ours = ours
	if len(c.results) > 0 {
		change.Ours = patching.Merged(ours, nested(e.Results, c.results).Missing(c.content))
	}
	if c.closed() && c.reason == causation.Delete {
		change.Release = e.Finalizer
	}
	return change, handled, nil
}

// withhold takes back what handlers have changed on the object, because the server does not accept
// it: their attempts have failed with that error. If only somebody else was faster, the attempts do
// not count; they are made again on the fresh object.
func (e *Engine) withhold(ctx context.Context, c *cycle, err error, contested bool) {
	logger := log.FromContext(ctx)
	for _, change := range c.changes {
		c.state.Reset(change.id, change.before)
		delete(c.results, change.id)
		if contested {
			logger.V(1).Info("Handler's change met another's; it will be called again", "handler", change.id, "error", err.Error())
			continue
		}
		handler, _ := e.Handlers.Get(change.id)
		outcome := handler.Policy.Outcome(change.before, time.Now(), err)
		c.state.Settle(change.id, outcome, time.Now())
		logger.Error(err, "Handler's change of the object was rejected", "handler", change.id, "final", outcome.Final)
	}
	c.change, c.changes, c.stopped = nil, nil, true
	c.object = c.before.DeepCopyObject().(client.Object)
	c.seen = c.before
}

// nested puts values below a path of fields.
func nested(path []string, values map[string]any) patching.Document {
	for _, field := range slices.Backward(path) {
		values = map[string]any{field: values}
	}
	return values
}

// calm turns what is no fault into a quiet return: the object is gone, or others keep writing it.
func calm(err error) (again time.Duration, fault error) {
	switch {
	case errors.Is(err, patching.ErrGone):
		return 0, nil
	case apierrors.IsConflict(err):
		return conflictPause, nil
	default:
		return 0, err
	}
}

const conflictPause = 100 * time.Millisecond
