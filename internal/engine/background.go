package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Background runs daemons and timers until the context ends, and returns when they have ended.
func (e *Engine) Background(ctx context.Context) error {
	logger := e.Log.WithValues("controller", e.Name)
	return e.supervisor.Start(log.IntoContext(ctx, logger))
}

// Close says that the operator has ended: background work that was abandoned writes nothing any more.
func (e *Engine) Close() { e.ended.Store(true) }

// attend finds the daemons and timers that the object is to have, and stops those that it is not to have.
// While it is being deleted that is all of them, before any handler is called for the deletion (DAE-08).
func (e *Engine) selectBackground(ctx context.Context, r *reconciliation) {
	if len(e.BackgroundHandlers.IDs()) == 0 {
		return
	}
	e.states.UpdateIfNewer(r.before)
	if r.cause.Facts.Deleting {
		e.supervisor.StopAll(r.before.GetUID(), daemons.ErrDeleted)
		return
	}
	for _, id := range e.BackgroundHandlers.IDs() {
		background, _ := e.BackgroundHandlers.Get(id)
		if !plan.MatchObject(log.FromContext(ctx), id, background.Handler, r.view, match.Input{Object: r.content}) {
			e.supervisor.Stop(daemons.Key{UID: r.before.GetUID(), ID: id}, daemons.ErrFilteredOut)
			continue
		}
		r.backgroundIDs = append(r.backgroundIDs, id)
	}
	e.touchTimers(r)
}

// isHeld reports whether what accompanies the object needs the finalizer: as long as it runs, or may run.
func (e *Engine) backgroundNeedsFinalizer(r *reconciliation) bool {
	uid := r.before.GetUID()
	return e.supervisor.Busy(uid) || slices.ContainsFunc(r.backgroundIDs, func(id string) bool {
		return !e.supervisor.Ended(daemons.Key{UID: uid, ID: id})
	})
}

// accompany starts the daemons and timers that the object is to have and has not.
func (e *Engine) startBackground(ctx context.Context, r *reconciliation) {
	for _, id := range r.backgroundIDs {
		key := daemons.Key{UID: r.before.GetUID(), ID: id}
		newest := e.states.Newest(key.UID)
		if !e.supervisor.NeedsStart(key) || newest == nil || newest.GetDeletionTimestamp() != nil {
			continue
		}
		background, _ := e.BackgroundHandlers.Get(id)
		task, err := e.taskFor(r, id, background)
		if err == nil {
			err = e.supervisor.Ensure(key, task)
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "Cannot be started; it is tried again when the object changes", "handler", id)
		}
	}
}

// taskFor makes the task of one object.
func (e *Engine) taskFor(r *reconciliation, id string, b *invoke.BackgroundHandler) (task daemons.Task, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("its InitialDelayFunc panicked: %v", value)
		}
	}()
	backgroundState := r.backgroundState()
	task = b.Task
	task.Policy, task.Kind, task.Object = b.Policy, e.Name, client.ObjectKeyFromObject(r.before)
	uid := r.before.GetUID()
	task.Run = func(ctx context.Context, attempt progress.Attempt) error {
		return e.invokeBackground(ctx, uid, id, b, backgroundState, attempt)
	}
	logger := e.logOf(r.before).WithValues("handler", id, "reason", b.Reason())
	task.OnAttempt = func(before progress.Record, outcome progress.Outcome) {
		b.Warnings.WarnMissingUnit(logger, outcome)
		backgroundState.reportOutcome(id, func(failed bool) bool {
			return e.postTransition(e.states.Newest(uid), id, failed, before, outcome)
		})
	}
	if b.InitialDelay != nil {
		task.InitialDelay = max(0, b.InitialDelay(r.before.DeepCopyObject().(client.Object)))
	}
	if t := b.Task.Timer; t != nil && t.Sharp {
		anchored := *t
		anchored.Anchor = r.before.GetCreationTimestamp().Time
		if !e.existedAtStart(r.known) && backgroundState.isFirstStart(id) && now().Sub(anchored.Anchor) < t.Interval {
			anchored.Last = anchored.Anchor.Add(-1) // it has come just now, and its creation is the first point
		}
		task.Timer = &anchored
	}
	return task, nil
}

var errEnded = errors.New("the operator has ended: nothing is written any more")
