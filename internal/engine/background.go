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
func (e *Engine) Close() { e.closed.Store(true) }

// attend finds the daemons and timers that the object is to have, and stops those that it is not to have.
// While it is being deleted that is all of them, before any handler is called for the deletion (DAE-08).
func (e *Engine) attend(ctx context.Context, c *cycle) {
	if len(e.BackgroundHandlers.IDs()) == 0 {
		return
	}
	e.states.UpdateIfNewer(c.before)
	if c.cause.Facts.Deleting {
		e.supervisor.StopAll(c.before.GetUID(), daemons.ErrDeleted)
		return
	}
	for _, id := range e.BackgroundHandlers.IDs() {
		background, _ := e.BackgroundHandlers.Get(id)
		if !plan.MatchObject(log.FromContext(ctx), id, background.Handler, c.view, match.Input{Object: c.content}) {
			e.supervisor.Stop(daemons.Key{UID: c.before.GetUID(), ID: id}, daemons.ErrFilteredOut)
			continue
		}
		c.attended = append(c.attended, id)
	}
	e.touch(c)
}

// isHeld reports whether what accompanies the object needs the finalizer: as long as it runs, or may run.
func (e *Engine) isHeld(c *cycle) bool {
	uid := c.before.GetUID()
	return e.supervisor.Busy(uid) || slices.ContainsFunc(c.attended, func(id string) bool {
		return !e.supervisor.Ended(daemons.Key{UID: uid, ID: id})
	})
}

// accompany starts the daemons and timers that the object is to have and has not.
func (e *Engine) accompany(ctx context.Context, c *cycle) {
	for _, id := range c.attended {
		key := daemons.Key{UID: c.before.GetUID(), ID: id}
		newest := e.states.Newest(key.UID)
		if !e.supervisor.NeedsStart(key) || newest == nil || newest.GetDeletionTimestamp() != nil {
			continue
		}
		background, _ := e.BackgroundHandlers.Get(id)
		task, err := e.taskFor(c, id, background)
		if err == nil {
			err = e.supervisor.Ensure(key, task)
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "Cannot be started; it is tried again when the object changes", "handler", id)
		}
	}
}

// taskFor makes the task of one object.
func (e *Engine) taskFor(c *cycle, id string, b *invoke.BackgroundHandler) (task daemons.Task, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("its InitialDelayFunc panicked: %v", value)
		}
	}()
	companion := c.companion()
	task = b.Task
	task.Policy, task.Kind, task.Object = b.Policy, e.Name, client.ObjectKeyFromObject(c.before)
	uid := c.before.GetUID()
	task.Run = func(ctx context.Context, attempt progress.Attempt) error {
		return e.iterate(ctx, uid, id, b, companion, attempt)
	}
	logger := e.logOf(c.before).WithValues("handler", id, "reason", b.Reason())
	task.OnAttempt = func(before progress.Record, outcome progress.Outcome) {
		b.Warnings.WarnMissingUnit(logger, outcome)
		companion.reports(id, func(failed bool) bool {
			return e.announceAgain(e.states.Newest(uid), id, failed, before, outcome)
		})
	}
	if b.InitialDelay != nil {
		task.InitialDelay = max(0, b.InitialDelay(c.before.DeepCopyObject().(client.Object)))
	}
	if t := b.Task.Timer; t != nil && t.Sharp {
		anchored := *t
		anchored.Anchor = c.before.GetCreationTimestamp().Time
		if !e.existed(c.memory) && companion.begins(id) && now().Sub(anchored.Anchor) < t.Interval {
			anchored.Last = anchored.Anchor.Add(-1) // it has come just now, and its creation is the first point
		}
		task.Timer = &anchored
	}
	return task, nil
}

var errClosed = errors.New("the operator has ended: nothing is written any more")
