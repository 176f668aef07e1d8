package engine

import (
	"context"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/background"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// endWork stops the work for an object that has left the cache. The object may be deleted. But it may still exist if the cache no longer
// selects it, or if a list from the API server was incomplete. The difference matters, because daemons and timers see it in their cause,
// and CancelOnDelete cancels handlers only for a deletion. So unless isDeleted is true, endWork asks the API server first. It doesn't wait
// for the answer.
func (e *Engine) endWork(obj client.Object, isDeleted bool) {
	uid := obj.GetUID()
	e.background.supervisor.StopWaiting(uid)
	switch {
	case isDeleted || obj.GetDeletionTimestamp() != nil:
		e.cancelWork(uid, daemons.ErrDeleted)
	case !e.background.supervisor.Busy(uid) && !e.states.AwaitsDeletion(uid):
		e.cancelWork(uid, daemons.ErrOutOfScope) // nothing receives the cause
	default:
		e.gone.deletions.start(uid, func(ctx context.Context, done func()) { e.askAndCancel(ctx, obj, done) })
	}
}

// askAndCancel cancels the work for an object with the cause that the API server confirms. If the API server cannot be asked, the object
// counts as out of scope, because a daemon may drop a deleted object's data.
func (e *Engine) askAndCancel(ctx context.Context, obj client.Object, done func()) {
	uid, cause := obj.GetUID(), daemons.ErrDeleted
	exists, err := e.gone.deletions.ask(ctx, func(ctx context.Context) (bool, error) { return e.exists(ctx, obj) })
	done() // first, so that work that starts after this is checked again
	if ctx.Err() != nil {
		return // the operator has stopped, and the supervisor cancels the runs
	}
	if err != nil {
		e.logOf(obj).Error(err, "Failed to check whether the object is deleted; its daemons and timers are stopped as out of scope")
	}
	if exists || err != nil {
		cause = daemons.ErrOutOfScope
	}
	if errors.Is(cause, daemons.ErrDeleted) || e.states.Newest(uid) == nil { // otherwise, the cache has the object again
		e.cancelWork(uid, cause)
	}
	e.enqueue(uid) // starts daemons and timers again if the cache has the object again
}

// cancelWork stops an object's daemons and timers with a cause, and forgets them. For a deletion, it also cancels the handlers with
// CancelOnDelete.
func (e *Engine) cancelWork(uid types.UID, cause error) {
	e.background.supervisor.StopAll(uid, cause)
	e.background.supervisor.Forget(uid)
	if errors.Is(cause, daemons.ErrDeleted) {
		e.states.NotifyDeletion(uid)
	}
}

// forget drops what the process knows about an object that is deleted or out of scope.
func (e *Engine) forget(uid types.UID) {
	e.states.Forget(uid)
	e.forgetClusterEvents(uid)
	e.background.panicChanges.Take(uid)
	for _, place := range []any{e.Store, e.Remote} {
		if forgetter, ok := place.(progress.Forgetter); ok {
			forgetter.Forget(uid)
		}
	}
}

// newSupervisor returns the supervisor of the daemons and timers. When one of them has returned, its object is enqueued, because the
// object's deletion may have waited for that.
func (e *Engine) newSupervisor() *daemons.Supervisor {
	return daemons.New(daemons.Options{
		OnEnd:       func(key daemons.Key) { e.enqueue(key.UID) },
		Kind:        e.GVK.Kind,
		GracePeriod: background.GracePeriod,
	})
}

func (e *Engine) startBackground(ctx context.Context, r *reconciliation) (Hold, error) {
	if len(r.matching.background) > 0 {
		e.background.runner.Start(ctx, r.draft.Base(), r.matching.background, r.backgroundState(), !r.known.ExistedAtStart)
	}
	return Hold{}, nil
}

func (e *Engine) checkBackground(s subject) Hold {
	if s.obj.GetDeletionTimestamp() == nil {
		return Hold{}
	}
	var busy []string
	for _, id := range e.BackgroundHandlers.IDs() {
		switch e.background.supervisor.Status(daemons.Key{UID: s.obj.GetUID(), ID: id}).State {
		case daemons.StateRunning, daemons.StateStopping:
			busy = append(busy, id)
		default:
		}
	}
	if len(busy) == 0 {
		return Hold{}
	}
	return Hold{Reason: HeldByDaemons, Message: "daemons or timers have not stopped: " + strings.Join(busy, ", "), Scope: HoldsRelease}
}
