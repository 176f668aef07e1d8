package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/fencing"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// The delays between the attempts to write the changes of a daemon or a timer.
const (
	firstWritePause = 100 * time.Millisecond
	lastWritePause  = 30 * time.Second
	lastGracePause  = time.Second // in the grace period
)

// maxContests limits how often a change is rebased on lists that other clients keep changing.
const maxContests = 10

var errEnded = errors.New("the operator has ended: nothing is written any more")

// writeBackground writes the changes of a daemon or a timer. It retries after errors of the API server as long as the task may run, and then in the
// grace period. It returns an error if the API server rejects the change, or if the change could not be written in time. If untyped is true, the
// patch may have fields that the Go type lacks.
func (e *Engine) writeBackground(ctx context.Context, r *reconciliation, id string, doc patch.MergePatch, a *backgroundState, untyped bool) (err error) {
	var own edit
	defer func() {
		if own.open && a.cancelWrite(&own) {
			e.enqueue(r.before.GetUID())
		}
	}()
	change := &patch.Change{Before: r.before, Content: r.content, HandlerPatch: doc, ReadUntyped: untyped}
	pause, contests := firstWritePause, 0
	for len(change.HandlerPatch) > 0 {
		err = e.tryWriteBackground(ctx, r, id, change, a, &own)
		if _, contested := errors.AsType[*patch.ListConflictError](err); contested && contests < maxContests {
			contests++
			if doc, err = e.rebaseOnLive(ctx, r, change.HandlerPatch); err == nil {
				change = &patch.Change{Before: r.before, Content: r.content, HandlerPatch: doc, ReadUntyped: untyped}
				continue
			}
		}
		if concurrent, ok := errors.AsType[*patch.ConcurrentChangeError](err); ok {
			change = dropOverwrittenFields(ctx, change, concurrent.Fields)
			continue
		}
		switch {
		case err == nil, errors.Is(err, patch.ErrGone):
			return nil
		case errors.Is(err, fencing.ErrSuspended):
			continue // the next attempt waits for the end of the hold
		case isRejected(err):
			return err
		case errors.Is(err, errEnded), errors.Is(err, errChangedConcurrently), errors.Is(err, fencing.ErrStopped):
			return fmt.Errorf("what was changed last could not be written: %w", err)
		}
		wait := pause
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			wait = max(wait, time.Duration(seconds)*time.Second)
		}
		stopped := ctx.Err() != nil
		if stopped {
			if wait = min(wait, lastGracePause); r.grace.left() <= wait {
				log.FromContext(ctx).Error(err, "Gave up storing the last change: the grace period is over")
				return fmt.Errorf("what was changed last could not be written: %w", err)
			}
		}
		log.FromContext(ctx).Info("Failed to write the changes of a daemon or timer; retrying", "error", err.Error(), "retryAfter", wait.String())
		sleep(ctx, wait, stopped)
		if pause = min(2*pause, lastWritePause); !stopped && ctx.Err() != nil {
			pause = firstWritePause // for the attempts in the grace period
		}
	}
	return nil
}

// tryWriteBackground makes one attempt. It registers a change of the essence first, so that the worker does not take it for an update. The change
// remains registered while the outcome of the request is unknown.
func (e *Engine) tryWriteBackground(ctx context.Context, r *reconciliation, id string, change *patch.Change, a *backgroundState, own *edit) error {
	if e.ended.Load() {
		return errEnded
	}
	doc := change.HandlerPatch
	// The context may end because of the suspension. The change is written after the hold all the same.
	untouched := func(content map[string]any) bool { return isUntouched(doc, r.content, content) }
	if err := e.awaitFenceUnchanged(context.WithoutCancel(ctx), r, untouched); err != nil {
		return err
	}
	essential := e.detector.AffectsEssence(r.content, doc)
	if essential {
		a.turn.Lock()
		defer a.turn.Unlock()
		before, after := e.essencesAround(r, doc)
		a.beginWrite(own, r.content, doc, essence.DigestOf(before), essence.DigestOf(after))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	change.Allow = e.writeGuard(r)
	written, err := e.writer.Write(ctx, change)
	if isRejected(err) && change.FirstResponse() != nil {
		return errors.Join(err, e.revertPart(ctx, r, change))
	}
	if err != nil || written == nil {
		return err
	}
	e.reportDropped(ctx, change, id, doc)
	e.identify(written)
	content, err := patch.Content(written)
	if err != nil {
		return err
	}
	e.states.UpdateUnlessOlder(written)
	r.written = written
	if essential {
		is := edit{doc: doc.CurrentValues(content), version: written.GetResourceVersion()}
		changed, again := a.endWrite(own, is, essence.DigestOf(e.detector.Essence.Build(content)))
		if changed {
			e.supervisor.Touch(r.before.GetUID())
		}
		if again {
			e.enqueue(r.before.GetUID())
		}
	}
	return nil
}

// revertPart reverts the status of a rejected change that was written in part, unless another client has changed it since.
func (e *Engine) revertPart(ctx context.Context, r *reconciliation, change *patch.Change) error {
	content, err := patch.Content(change.FirstResponse())
	if err != nil {
		return err
	}
	back := change.HandlerPatch.StatusPart().Revert(r.content, content)
	_, err = e.writer.Write(ctx, &patch.Change{Before: change.FirstResponse(), Content: content, HandlerPatch: back, Allow: e.writeGuard(r)})
	if isRejected(err) {
		return nil
	}
	return err
}

// essencesAround returns the essences of the newest known state, without and with a change.
func (e *Engine) essencesAround(r *reconciliation, doc patch.MergePatch) (before, after map[string]any) {
	base := r.content
	if newest := e.states.Newest(r.before.GetUID()); newest != nil {
		if content, err := patch.Content(newest); err == nil {
			doc, base = doc.Rebase(base, content), content
		}
	}
	return e.detector.Essence.Build(base), e.detector.Essence.Build(doc.Apply(base))
}

// rebaseOnLive rebases a change on the present object, because another client has changed the same list.
func (e *Engine) rebaseOnLive(ctx context.Context, r *reconciliation, doc patch.MergePatch) (patch.MergePatch, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	live, err := e.readObject(ctx, e.APIReader, client.ObjectKeyFromObject(r.before))
	if err != nil {
		return doc, err
	}
	if live == nil || live.GetUID() != r.before.GetUID() {
		return doc, patch.ErrGone
	}
	base := r.content
	if err := r.setBase(live); err != nil {
		return doc, err
	}
	return doc.Rebase(base, r.content).Unapplied(r.content), nil
}

// sleep waits for a delay or for the end of the context. If the context has ended already, it waits for the delay.
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

// gracePeriod is the time in which daemons and timers without a CancellationTimeout must stop when the operator stops. It includes the time for a
// last write.
const gracePeriod = daemons.DefaultGracePeriod + writeTimeout

// grace is the time after the end of its context in which one invocation of a daemon or a timer can store its last change. Then the supervisor
// abandons it.
type grace struct {
	context context.Context //nolint:containedctx // writes have other contexts, but this one decides when the task must stop
	period  time.Duration
	since   atomic.Pointer[time.Time] // nil while the context has not ended
	end     func() bool
}

func newGrace(ctx context.Context, b *invoke.BackgroundHandler) *grace {
	g := &grace{context: ctx, period: gracePeriod}
	if timeout := b.Task.CancellationTimeout; timeout != nil {
		g.period = *timeout
		if backoff := b.Task.CancellationBackoff; backoff != nil {
			g.period += *backoff
		}
	}
	g.end = context.AfterFunc(ctx, func() { g.since.CompareAndSwap(nil, new(time.Now())) })
	return g
}

// left returns the rest of the time. It is 0 if the context of the invocation has not ended.
func (g *grace) left() time.Duration {
	if g.context.Err() == nil {
		return 0
	}
	g.since.CompareAndSwap(nil, new(time.Now()))
	return g.period - time.Since(*g.since.Load())
}
