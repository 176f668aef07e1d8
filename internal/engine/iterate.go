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
func (e *Engine) invokeBackground(ctx context.Context, uid types.UID, id string, b *invoke.BackgroundHandler, a *backgroundState, attempt progress.Attempt) error {
	suspensions, err := e.waitForFence(ctx)
	if err != nil {
		return err
	}
	shared := e.states.Newest(uid)
	if shared == nil {
		return nil // it is gone, and whoever runs this is about to learn it
	}
	obj := shared.DeepCopyObject().(client.Object)
	e.identify(obj)
	r := &reconciliation{known: &objectState{}, before: obj, object: obj, suspensions: suspensions}
	begin := func() error { // mostly nothing is changed, and its JSON form not needed
		if r.content != nil {
			return nil
		}
		return r.setBase(obj)
	}
	r.grace = newGrace(ctx, b)
	defer r.grace.end()
	ctx = objectstate.ContextWithMemos(ctx, e.states.Memos(uid))
	ctx = log.IntoContext(ctx, e.logOf(obj).WithValues("handler", id, "reason", b.Reason(), "attempt", attempt.Number))
	view := &invoke.View{Object: obj, Reason: b.Reason(), ConditionOptions: e.conditionOptions(), Latest: e.latest(obj), Notify: e.notifierFor(obj)}
	if b.Field != nil {
		if err := begin(); err != nil {
			return err
		}
		view.Before, view.After = r.content, r.content
	}
	call := view.NewRequest(id, b.Handler, attempt)
	flush := e.newBackgroundFlush(r, call, a)
	call.Flush = func(ctx context.Context) error {
		if err := begin(); err != nil {
			return err
		}
		return flush(ctx)
	}
	failed := b.Do(ctx, call)
	if call.Result == nil && reflect.DeepEqual(r.object, call.Object) {
		return failed
	}
	if err := begin(); err != nil {
		return firstError(failed, err)
	}
	doc, err := e.handlerChanges(ctx, r, id, call.Object)
	doc = r.rebased(doc)
	if failed == nil && call.Result != nil {
		doc = patch.Merge(doc, nested(e.Results, map[string]any{id: call.Result}).Unapplied(r.content))
	}
	if doc = doc.Unapplied(r.content); len(doc) > 0 && err == nil {
		err = e.writeBackground(ctx, r, id, doc, a, failed == nil && call.Result != nil)
	}
	return firstError(failed, err)
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
	firstWritePause = 100 * time.Millisecond
	lastWritePause  = 30 * time.Second
	lastGracePause  = time.Second // within the grace period
)

// maxContests is how often a change is fitted anew to lists that others keep changing.
const maxContests = 10

// deposit writes what background work has changed. It waits out faults of the API for as long as the work may continue,
// and then for the grace period. The error says that the server does not accept the change, or that it could not be
// written in the end. A raw document has fields that the Go type may lack.
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
			change = withoutFields(ctx, change, concurrent.Fields)
			continue
		}
		switch {
		case err == nil, errors.Is(err, patch.ErrGone):
			return nil
		case errors.Is(err, fencing.ErrSuspended):
			continue // the next attempt waits
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
		log.FromContext(ctx).Info("What was changed cannot be written now; it is tried again", "error", err.Error(), "retryAfter", wait.String())
		sleep(ctx, wait, stopped)
		if pause = min(2*pause, lastWritePause); !stopped && ctx.Err() != nil {
			pause = firstWritePause // of the attempts within the grace period
		}
	}
	return nil
}

// depositOnce makes one attempt. An essential change is told to the worker first, for which it is no update; it stays
// told while it is not known whether it was written.
func (e *Engine) tryWriteBackground(ctx context.Context, r *reconciliation, id string, change *patch.Change, a *backgroundState, own *edit) error {
	if e.ended.Load() {
		return errEnded
	}
	doc := change.HandlerPatch
	// The work may have to stop because of the suspension: its change waits all the same.
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

// withdraw takes back what of a refused change was written all the same, unless others have gone on with it.
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

// judged are the essences of the newest known state, without an edit and with it.
func (e *Engine) essencesAround(r *reconciliation, doc patch.MergePatch) (before, after map[string]any) {
	base := r.content
	if newest := e.states.Newest(r.before.GetUID()); newest != nil {
		if content, err := patch.Content(newest); err == nil {
			doc, base = doc.Rebase(base, content), content
		}
	}
	return e.detector.Essence.Build(base), e.detector.Essence.Build(doc.Apply(base))
}

// refit makes a change that meets another's, in a list, one of the object as it is now.
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
