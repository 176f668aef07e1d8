package background

import (
	"cmp"
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

type call struct {
	runner      *Runner
	id          string
	obj         client.Object // the newest known state when the call started
	state       *State
	suspensions int64
	grace       *grace
	// draft is the object with the function's changes. It is nil until the call needs it, because the JSON form is expensive.
	draft *commit.Draft
}

func (c *call) begin() (err error) {
	if c.draft == nil {
		c.draft, err = commit.NewDraft(c.runner.Committer.Writer.NewObject, c.obj)
	}
	return err
}

// isUnchanged reports whether the function has left its copy of the object unchanged since the last flush.
func (c *call) isUnchanged(copied client.Object) bool {
	received := c.obj
	if c.draft != nil {
		received = c.draft.Current().Object
	}
	return reflect.DeepEqual(received, copied)
}

// invoke calls a daemon or timer function with the newest state of its object, and then writes the function's changes, even if it fails. It
// runs in the task's goroutine, concurrently with the object's worker. It sets endAttempt, which the caller must call with the outcome.
func (r *Runner) invoke(
	ctx context.Context, uid types.UID, id string, b *invoke.BackgroundHandler, state *State, attempt progress.Attempt, endAttempt *func(progress.Outcome),
) error {
	defer r.OnCall(uid, id)()
	suspensions, err := r.Committer.AwaitFence(ctx)
	if err != nil {
		return err
	}
	shared := r.Objects.Newest(uid)
	if shared == nil {
		return nil // the object is deleted, and the task is about to be stopped
	}
	if shared, _, err = r.Committer.Builder.Lean.Whole(shared, nil); err != nil {
		return fmt.Errorf("computing the last-handled configuration: %w", err)
	}
	obj := shared.DeepCopyObject().(client.Object)
	obj.GetObjectKind().SetGroupVersionKind(r.Committer.Writer.GVK)
	c := &call{runner: r, id: id, obj: obj, state: state, suspensions: suspensions, grace: newGrace(ctx, b)}
	defer c.grace.end()
	ctx = objectstate.ContextWithMemos(ctx, r.Objects.Memos(uid))
	ctx = log.IntoContext(ctx, r.LoggerFor(obj).WithValues("handler", id, "reason", b.Reason(), "attempt", attempt.Number))
	ctx, *endAttempt = r.Hooks.Begin(ctx, obj, invoke.AttemptInfo{Handler: id, Reason: b.Reason(), Attempt: attempt})
	view := r.NewView(obj, b.Reason())
	if b.Field != nil {
		if err := c.begin(); err != nil {
			return err
		}
		view.Before, view.After = c.draft.Content(), c.draft.Content()
	}
	req := view.NewRequest(id, &b.Handler, attempt)
	req.Flush = func(ctx context.Context) error { return c.flush(ctx, req.Object) }
	failed := b.Do(ctx, req)
	if req.Result == nil && c.isUnchanged(req.Object) {
		return failed
	}
	return cmp.Or(failed, c.writeChanges(ctx, req, failed == nil))
}

// writeChanges writes the function's changes, and its result if it has succeeded.
func (c *call) writeChanges(ctx context.Context, req *invoke.Request, succeeded bool) error {
	if err := c.begin(); err != nil {
		return err
	}
	changed, _, err := c.runner.Committer.ChangesOf(ctx, c.draft.Current(), c.id, req.Object)
	if err != nil {
		return err
	}
	doc, hasResult := c.draft.Rebased(changed), succeeded && req.Result != nil
	if hasResult {
		doc = patch.Merge(doc, patch.At(c.runner.Results, map[string]any{c.id: req.Result}).Unapplied(c.draft.Content()))
	}
	if doc = doc.Unapplied(c.draft.Content()); len(doc) == 0 {
		return nil
	}
	_, err = c.write(ctx, doc, hasResult)
	return err
}
