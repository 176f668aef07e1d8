package engine

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/execution"
	"github.com/kopf-runtime/kopf-runtime/internal/patching"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// run calls the planned handlers in order. What they have achieved is written at the end of the
// pass; earlier, in between, when they have worked for a while since the last write: a crash never
// repeats more than that.
func (e *Engine) run(ctx context.Context, c *cycle) error {
	for i, id := range c.planned {
		if c.stopped || isDone(ctx) {
			return nil
		}
		e.call(ctx, c, id)
		if left := len(c.planned) - i - 1; left > 0 && c.worked >= e.Checkpoint {
			if err := e.checkpoint(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func isDone(ctx context.Context) bool { return ctx.Err() != nil }

func now() time.Time { return time.Now() }

// call makes one attempt at one handler, and takes in what it wants to be written.
func (e *Engine) call(ctx context.Context, c *cycle, id string) {
	record := c.state.Record(id)
	began := now()
	var s share
	var changed patching.Document
	outcome := e.invoke(ctx, c, id, record, func(ctx context.Context, call *Call, err error) error {
		var failed error
		if changed, failed = e.changes(ctx, c, call.Object); failed != nil {
			return first(err, failed)
		}
		s = share{id: id, before: record, doc: changed}
		if err == nil && call.Result != nil {
			result := nested(e.Results, map[string]any{id: call.Result})
			s.doc = patching.Merged(changed, result.Missing(c.content))
		}
		return err
	})
	s.outcome = outcome
	if err := e.add(c, s, changed); err != nil {
		handler, _ := e.Handlers.Get(id)
		outcome = handler.Policy.Outcome(record, now(), err)
	}
	ended := now()
	c.state.Settle(id, outcome, ended)
	c.worked += ended.Sub(began)
}

// first prefers the handler's own error.
func first(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// invoke calls a handler with a copy of the object. The function sees the copy afterwards, while a
// panic is still the handler's.
func (e *Engine) invoke(ctx context.Context, c *cycle, id string, record progress.Record,
	after func(context.Context, *Call, error) error,
) progress.Outcome {
	handler, _ := e.Handlers.Get(id)
	policy := handler.Policy
	if after == nil {
		policy.Retries = new(1) // nobody comes back to an object that goes
	}
	return execution.Invoke(ctx, execution.Call{
		Kind: e.Name, ID: id, Reason: string(c.reason), Policy: policy, Record: record,
		Do: func(ctx context.Context) error {
			call := &Call{
				Object: c.object.DeepCopyObject().(client.Object), Old: e.old(c), Diff: slices.Clone(c.diff),
				Reason: string(c.reason), Attempt: record.Attempt(),
			}
			err := handler.Do(ctx, call)
			if after != nil {
				err = after(ctx, call, err)
			}
			return err
		},
	})
}

// old is the object as it was last handled, a copy for one handler; nil if it never was, or is not known.
func (e *Engine) old(c *cycle) client.Object {
	if c.old == nil && c.then != nil {
		obj, err := e.revived(c.then)
		if err != nil {
			return nil // it does not fit the Go type, as detect has told
		}
		obj.SetNamespace(c.before.GetNamespace())
		obj.SetName(c.before.GetName())
		c.old = obj
	}
	if c.old == nil {
		return nil
	}
	return c.old.DeepCopyObject().(client.Object)
}

// checkpoint writes what was achieved so far, and goes on with the object as it is then. If the
// cause is a different one by now, the rest of the pass is off.
func (e *Engine) checkpoint(ctx context.Context, c *cycle) error {
	written, err := e.write(ctx, c)
	if err != nil {
		return err
	}
	if written == nil || written.GetDeletionTimestamp() != nil && !c.facts.Deleting {
		log.FromContext(ctx).V(1).Info("The object was deleted meanwhile; the rest of the pass is off")
		c.stopped = true
	}
	return nil
}
