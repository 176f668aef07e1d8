package engine

import (
	"context"
	"reflect"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/execution"
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

// call makes one attempt at one handler.
func (e *Engine) call(ctx context.Context, c *cycle, id string) {
	record := c.state.Record(id)
	began := time.Now()
	outcome, result := e.invoke(ctx, c, id, record)
	ended := time.Now()
	c.state.Settle(id, outcome, ended)
	c.worked += ended.Sub(began)

	if outcome.Success && outcome.Err == nil && result != nil {
		if c.results == nil {
			c.results = map[string]any{}
		}
		c.results[id] = result
	}
	if !reflect.DeepEqual(c.seen, c.object) {
		c.changes = append(c.changes, changed{id: id, before: record})
		c.seen = c.object.DeepCopyObject().(client.Object)
	}
}

func (e *Engine) invoke(ctx context.Context, c *cycle, id string, record progress.Record) (progress.Outcome, any) {
	handler, _ := e.Handlers.Get(id)
	call := &Call{
		Object: c.object, Old: func() client.Object { return e.old(c) }, Diff: c.diff,
		Reason: string(c.reason), Attempt: record.Attempt(),
	}
	outcome := execution.Invoke(ctx, execution.Call{
		Kind: e.Name, ID: id, Reason: call.Reason, Policy: handler.Policy, Record: record,
		Do: func(ctx context.Context) error { return handler.Do(ctx, call) },
	})
	return outcome, call.Result
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
