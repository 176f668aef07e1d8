package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/fencing"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// iterate calls a daemon or a timer once, with the newest state of its object, and writes what it has changed in
// that, also if it has failed. It is on a goroutine of its own, beside the worker of the object: it writes nothing
// that the worker does.
func (e *Engine) iterate(ctx context.Context, uid types.UID, id string, b *invoke.BackgroundHandler, a *companion, attempt progress.Attempt) error {
	suspensions, err := e.passFence(ctx)
	if err != nil {
		return err
	}
	shared := e.states.Newest(uid)
	if shared == nil {
		return nil // it is gone, and whoever runs this is about to learn it
	}
	obj := shared.DeepCopyObject().(client.Object)
	e.identify(obj)
	c := &cycle{memory: &objectState{}, before: obj, object: obj, suspensions: suspensions}
	begin := func() error { // mostly nothing is changed, and its JSON form not needed
		if c.content != nil {
			return nil
		}
		return c.begin(obj)
	}
	c.grace = newGrace(ctx, b)
	defer c.grace.end()
	ctx = objectstate.ContextWithMemos(ctx, e.states.Memos(uid))
	ctx = log.IntoContext(ctx, e.logOf(obj).WithValues("handler", id, "reason", b.Reason(), "attempt", attempt.Number))
	view := &invoke.View{Object: obj, Reason: b.Reason(), ConditionOptions: e.conditionOptions(), Latest: e.latest(obj), Notify: e.notifierFor(obj)}
	if b.Field != nil {
		if err := begin(); err != nil {
			return err
		}
		view.Before, view.After = c.content, c.content
	}
	call := view.NewRequest(id, b.Handler, attempt)
	flush := e.backgroundFlusher(c, call, a)
	call.Flush = func(ctx context.Context) error {
		if err := begin(); err != nil {
			return err
		}
		return flush(ctx)
	}
	failed := b.Do(ctx, call)
	if call.Result == nil && reflect.DeepEqual(c.object, call.Object) {
		return failed
	}
	if err := begin(); err != nil {
		return first(failed, err)
	}
	doc, err := e.changes(ctx, c, id, call.Object)
	doc = c.fitted(doc)
	if failed == nil && call.Result != nil {
		doc = patch.Merge(doc, nested(e.Results, map[string]any{id: call.Result}).Unapplied(c.content))
	}
	if doc = doc.Unapplied(c.content); len(doc) > 0 && err == nil {
		err = e.deposit(ctx, c, id, doc, a, failed == nil && call.Result != nil)
	}
	return first(failed, err)
}

// latest finds the newest state of an object, as a copy; when it is gone, the last one that is known here.
func (e *Engine) latest(obj client.Object) func() client.Object {
	return func() client.Object {
		newest := e.states.Newest(obj.GetUID())
		if newest == nil {
			newest = obj
		}
		copied := newest.DeepCopyObject().(client.Object)
		e.identify(copied)
		return copied
	}
}

// The pauses between the attempts at one write of background work.
const (
	firstDepositPause = 100 * time.Millisecond
	lastDepositPause  = 30 * time.Second
	lastGracePause    = time.Second // within the grace period
)

// maxContests is how often a change is fitted anew to lists that others keep changing.
const maxContests = 10

// deposit writes what background work has changed. It waits out faults of the API for as long as the work may continue,
// and then for the grace period. The error says that the server does not accept the change, or that it could not be
// written in the end. A raw document has fields that the Go type may lack.
func (e *Engine) deposit(ctx context.Context, c *cycle, id string, doc patch.MergePatch, a *companion, raw bool) (err error) {
	var own edit
	defer func() {
		if own.open && a.abandon(&own) {
			e.wake(c.before.GetUID())
		}
	}()
	change := &patch.Change{Before: c.before, Content: c.content, HandlerPatch: doc, ReadUntyped: raw}
	pause, contests := firstDepositPause, 0
	for len(change.HandlerPatch) > 0 {
		err = e.depositOnce(ctx, c, id, change, a, &own)
		if _, contested := errors.AsType[*patch.ListConflictError](err); contested && contests < maxContests {
			contests++
			if doc, err = e.refit(ctx, c, change.HandlerPatch); err == nil {
				change = &patch.Change{Before: c.before, Content: c.content, HandlerPatch: doc, ReadUntyped: raw}
				continue
			}
		}
		if concurrent, ok := errors.AsType[*patch.ConcurrentChangeError](err); ok {
			change = reduced(ctx, change, concurrent.Fields)
			continue
		}
		switch {
		case err == nil, errors.Is(err, patch.ErrGone):
			return nil
		case errors.Is(err, fencing.ErrSuspended):
			continue // the next attempt waits
		case refused(err):
			return err
		case errors.Is(err, errClosed), errors.Is(err, errOvertaken), errors.Is(err, fencing.ErrStopped):
			return fmt.Errorf("what was changed last could not be written: %w", err)
		}
		wait := pause
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			wait = max(wait, time.Duration(seconds)*time.Second)
		}
		stopped := ctx.Err() != nil
		if stopped {
			if wait = min(wait, lastGracePause); c.grace.left() <= wait {
				log.FromContext(ctx).Error(err, "Gave up storing the last change: the grace period is over")
				return fmt.Errorf("what was changed last could not be written: %w", err)
			}
		}
		log.FromContext(ctx).Info("What was changed cannot be written now; it is tried again", "error", err.Error(), "retryAfter", wait.String())
		sleep(ctx, wait, stopped)
		if pause = min(2*pause, lastDepositPause); !stopped && ctx.Err() != nil {
			pause = firstDepositPause // of the attempts within the grace period
		}
	}
	return nil
}

// depositOnce makes one attempt. An essential change is told to the worker first, for which it is no update; it stays
// told while it is not known whether it was written.
func (e *Engine) depositOnce(ctx context.Context, c *cycle, id string, change *patch.Change, a *companion, own *edit) error {
	if e.closed.Load() {
		return errClosed
	}
	doc := change.HandlerPatch
	// The work may have to stop because of the suspension: its change waits all the same.
	untouched := func(content map[string]any) bool { return isUntouched(doc, c.content, content) }
	if err := e.awaitFence(context.WithoutCancel(ctx), c, untouched); err != nil {
		return err
	}
	essential := e.detector.AffectsEssence(c.content, doc)
	if essential {
		a.turn.Lock()
		defer a.turn.Unlock()
		before, after := e.judged(c, doc)
		a.begin(own, c.content, doc, essence.DigestOf(before), essence.DigestOf(after))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	change.Allow = e.allow(c)
	written, err := e.writer.Write(ctx, change)
	if refused(err) && change.FirstResponse() != nil {
		return errors.Join(err, e.withdraw(ctx, c, change))
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
	c.deposited = written
	if essential {
		is := edit{doc: doc.CurrentValues(content), version: written.GetResourceVersion()}
		changed, again := a.settle(own, is, essence.DigestOf(e.detector.Essence.Build(content)))
		if changed {
			e.supervisor.Touch(c.before.GetUID())
		}
		if again {
			e.wake(c.before.GetUID())
		}
	}
	return nil
}

// withdraw takes back what of a refused change was written all the same, unless others have gone on with it.
func (e *Engine) withdraw(ctx context.Context, c *cycle, change *patch.Change) error {
	content, err := patch.Content(change.FirstResponse())
	if err != nil {
		return err
	}
	back := change.HandlerPatch.StatusPart().Revert(c.content, content)
	_, err = e.writer.Write(ctx, &patch.Change{Before: change.FirstResponse(), Content: content, HandlerPatch: back, Allow: e.allow(c)})
	if refused(err) {
		return nil
	}
	return err
}

// judged are the essences of the newest known state, without an edit and with it.
func (e *Engine) judged(c *cycle, doc patch.MergePatch) (before, after map[string]any) {
	base := c.content
	if newest := e.states.Newest(c.before.GetUID()); newest != nil {
		if content, err := patch.Content(newest); err == nil {
			doc, base = doc.Rebase(base, content), content
		}
	}
	return e.detector.Essence.Build(base), e.detector.Essence.Build(doc.Apply(base))
}

// refit makes a change that meets another's, in a list, one of the object as it is now.
func (e *Engine) refit(ctx context.Context, c *cycle, doc patch.MergePatch) (patch.MergePatch, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	live, err := e.read(ctx, e.Live, client.ObjectKeyFromObject(c.before))
	if err != nil {
		return doc, err
	}
	if live == nil || live.GetUID() != c.before.GetUID() {
		return doc, patch.ErrGone
	}
	base := c.content
	if err := c.begin(live); err != nil {
		return doc, err
	}
	return doc.Rebase(base, c.content).Unapplied(c.content), nil
}

// sleep ends with the context, too, unless that has ended before.
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
