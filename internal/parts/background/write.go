package background

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/suspension"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// The pauses between attempts to write the changes of a daemon or timer.
const (
	firstWritePause = 100 * time.Millisecond
	lastWritePause  = 30 * time.Second
	lastGracePause  = time.Second // the longest pause in the grace period
)

// maxContests limits how often a change is rebased because another client has changed the same list.
const maxContests = 10

// flush writes the status changes that the function has made so far.
func (c *call) flush(ctx context.Context, copied client.Object) error {
	if err := c.begin(); err != nil {
		return err
	}
	own, doc, err := c.runner.Committer.FlushableChanges(ctx, c.draft, c.id, copied)
	if len(doc) == 0 || err != nil {
		return err
	}
	written, err := c.write(ctx, doc, false)
	if err != nil || written == nil {
		return err
	}
	return c.draft.ContinueAfterFlush(own, written)
}

// write writes a patch of the draft, and returns the object after the write. It returns nil if there is nothing to write, or if the object
// is deleted. After errors of the API server, it retries as long as the task may run, and then until the grace period is over. It returns
// an error if the API server rejects the patch, or if time runs out. If untyped is true, the patch may have fields that the Go type lacks.
func (c *call) write(ctx context.Context, doc patch.MergePatch, untyped bool) (written client.Object, err error) {
	var own Edit
	defer func() {
		if own.open && c.state.cancelWrite(&own) {
			c.runner.Enqueue(c.obj.GetUID())
		}
	}()
	change := &patch.Change{Before: c.draft.Base(), Content: c.draft.Content(), HandlerPatch: doc, ReadUntyped: untyped}
	pause, contests := firstWritePause, 0
	for len(change.HandlerPatch) > 0 {
		written, err = c.tryWrite(ctx, change, &own)
		if _, contested := errors.AsType[*patch.ListConflictError](err); contested && contests < maxContests {
			contests++
			var rebased *patch.Change
			if rebased, err = c.rebaseOnLive(ctx, change); err == nil {
				change = rebased
				continue
			}
		}
		if concurrent, ok := errors.AsType[*patch.ConcurrentChangeError](err); ok {
			change = commit.DropOverwrittenFields(ctx, change, concurrent.Fields)
			continue
		}
		switch {
		case err == nil, errors.Is(err, patch.ErrGone):
			return written, nil
		case errors.Is(err, suspension.ErrDetected):
			continue // the next attempt waits until the hold is over
		case commit.IsRejected(err):
			return nil, err
		case errors.Is(err, commit.ErrEnded), errors.Is(err, commit.ErrChangedConcurrently), errors.Is(err, suspension.ErrStopped):
			return nil, fmt.Errorf("the last changes of the function could not be written: %w", err)
		}
		wait := pause
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			wait = max(wait, time.Duration(seconds)*time.Second)
		}
		stopped := ctx.Err() != nil
		if stopped {
			if wait = min(wait, lastGracePause); c.grace.left() <= wait {
				log.FromContext(ctx).Error(err, "Gave up storing the last change: the grace period is over")
				return nil, fmt.Errorf("the last changes of the function could not be written: %w", err)
			}
		}
		log.FromContext(ctx).Info("Failed to write the changes of a daemon or timer; retrying", "error", err.Error(), "retryAfter", wait.String())
		sleep(ctx, wait, stopped)
		if pause = min(2*pause, lastWritePause); !stopped && ctx.Err() != nil {
			pause = firstWritePause // the grace period has just started
		}
	}
	return nil, nil
}

// tryWrite makes one attempt to write a change. It registers an essence change before the request, so that the worker doesn't take it for
// an update. The change stays registered while it is unknown whether the request has succeeded.
func (c *call) tryWrite(ctx context.Context, change *patch.Change, own *Edit) (client.Object, error) {
	doc, base := change.HandlerPatch, change.Content
	// A suspension may cancel the context, but the change must be written after the hold anyway.
	untouched := func(content map[string]any) bool { return commit.IsUntouched(doc, base, content) }
	if err := c.runner.Committer.AwaitFenceUnchanged(context.WithoutCancel(ctx), c.obj, &c.suspensions, untouched); err != nil {
		return nil, err
	}
	essential := c.runner.Committer.Builder.Detector.AffectsEssence(base, doc)
	if essential {
		c.state.turn.Lock()
		defer c.state.turn.Unlock()
		before, after := c.essencesAround(base, doc)
		c.state.beginWrite(own, base, doc, essence.DigestOf(before), essence.DigestOf(after))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commit.WriteTimeout)
	defer cancel()
	c.runner.Committer.Observed.AddPlaces(doc.Observations(base))
	if doc.ChangesSpec() && !c.runner.Committer.Observed.IsEmpty() {
		change.SeenGeneration = c.draft.Base().GetGeneration()
	}
	written, err := c.runner.Committer.Write(ctx, change, &c.suspensions)
	if commit.IsRejected(err) && change.FirstResponse() != nil {
		return nil, errors.Join(err, c.revertPart(ctx, change))
	}
	if err != nil || written == nil {
		return nil, err
	}
	if change.RaisedTo != 0 {
		c.state.noteRaised(patch.Generations{From: change.SeenGeneration, To: change.RaisedTo})
		defer c.runner.Enqueue(c.obj.GetUID())
	}
	c.runner.Committer.ReportDropped(ctx, change, c.id, doc)
	content, err := patch.Content(written)
	if err != nil {
		return nil, err
	}
	if essential {
		stored := Edit{doc: doc.CurrentValues(content), version: written.GetResourceVersion()}
		changed, again := c.state.endWrite(own, stored, essence.DigestOf(c.runner.Committer.Builder.Detector.Essence.Build(content)))
		if changed {
			c.runner.Supervisor.Touch(c.obj.GetUID())
		}
		if again {
			c.runner.Enqueue(c.obj.GetUID())
		}
	}
	return written, nil
}

// revertPart reverts the status of a rejected change that was partly written, unless another client has changed it since.
func (c *call) revertPart(ctx context.Context, change *patch.Change) error {
	content, err := patch.Content(change.FirstResponse())
	if err != nil {
		return err
	}
	back := change.HandlerPatch.StatusPart().Revert(change.Content, content)
	_, err = c.runner.Committer.Write(ctx, &patch.Change{Before: change.FirstResponse(), Content: content, HandlerPatch: back}, &c.suspensions)
	if commit.IsRejected(err) {
		return nil
	}
	return err
}

// essencesAround returns the essences of the newest known state, without and with a change to base.
func (c *call) essencesAround(base map[string]any, doc patch.MergePatch) (before, after map[string]any) {
	if newest := c.runner.Objects.Newest(c.obj.GetUID()); newest != nil {
		if content, err := patch.Content(newest); err == nil {
			doc, base = doc.Rebase(base, content), content
		}
	}
	return c.runner.Committer.Builder.Detector.Essence.Build(base), c.runner.Committer.Builder.Detector.Essence.Build(doc.Apply(base))
}

// rebaseOnLive rebases a change on the live object, after another client has changed the same list.
func (c *call) rebaseOnLive(ctx context.Context, change *patch.Change) (*patch.Change, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commit.WriteTimeout)
	defer cancel()
	live, err := c.runner.Committer.ReadLive(ctx, client.ObjectKeyFromObject(c.obj))
	if err != nil {
		return nil, err
	}
	if live == nil || live.GetUID() != c.obj.GetUID() {
		return nil, patch.ErrGone
	}
	content, err := patch.Content(live)
	if err != nil {
		return nil, err
	}
	return &patch.Change{
		Before: live, Content: content, ReadUntyped: change.ReadUntyped,
		HandlerPatch: change.HandlerPatch.Rebase(change.Content, content).Unapplied(content),
	}, nil
}

// sleep waits for the pause, or until the context is cancelled. With ended, the context is cancelled already, so sleep just waits for the
// pause.
func sleep(ctx context.Context, pause time.Duration, ended bool) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	done := ctx.Done()
	if ended {
		done = nil
	}
	select {
	case <-timer.C:
	case <-done:
	}
}

// GracePeriod is how long daemons and timers without a CancellationTimeout may take to stop when the operator stops. It includes the time
// for a last write.
const GracePeriod = daemons.DefaultGracePeriod + commit.WriteTimeout

// grace is the time that a daemon's or timer's call has to store its last change after its context is cancelled. After that, the supervisor
// abandons the call.
type grace struct {
	context context.Context //nolint:containedctx // writes have other contexts, but this one decides when the task must stop
	period  time.Duration
	since   atomic.Pointer[time.Time] // nil until the context is cancelled
	end     func() bool
}

func newGrace(ctx context.Context, b *invoke.BackgroundHandler) *grace {
	g := &grace{context: ctx, period: GracePeriod}
	if timeout := b.Task.CancellationTimeout; timeout != nil {
		g.period = *timeout
		if backoff := b.Task.CancellationBackoff; backoff != nil {
			g.period += *backoff
		}
	}
	g.end = context.AfterFunc(ctx, func() { g.since.CompareAndSwap(nil, new(time.Now())) })
	return g
}

// left returns the remaining time, or 0 while the call's context is not cancelled.
func (g *grace) left() time.Duration {
	if g.context.Err() == nil {
		return 0
	}
	g.since.CompareAndSwap(nil, new(time.Now()))
	return g.period - time.Since(*g.since.Load())
}
