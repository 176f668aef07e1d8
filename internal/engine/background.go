package engine

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Background runs daemons and timers until the context ends, and returns when they have ended.
func (e *Engine) Background(ctx context.Context) error {
	logger := e.Log.WithValues("controller", e.Name)
	return e.supervisor.Start(log.IntoContext(ctx, logger))
}

// selectBackground finds the daemons and timers whose filters accept the object, and stops all others. It stops all of them when the object is being
// deleted, before any handler is called for the deletion.
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
		if !plan.MatchObject(log.FromContext(ctx), id, background.Handler, r.view, match.Input{Object: r.content}).Accepts() {
			e.supervisor.Stop(daemons.Key{UID: r.before.GetUID(), ID: id}, daemons.ErrFilteredOut)
			continue
		}
		r.backgroundIDs = append(r.backgroundIDs, id)
	}
	e.touchTimers(r)
}

// backgroundNeedsFinalizer reports whether a daemon or a timer of the object is running or may be started.
func (e *Engine) backgroundNeedsFinalizer(r *reconciliation) bool {
	uid := r.before.GetUID()
	return e.supervisor.Busy(uid) || slices.ContainsFunc(r.backgroundIDs, func(id string) bool {
		return !e.supervisor.Ended(daemons.Key{UID: uid, ID: id})
	})
}

// startBackground starts the selected daemons and timers that are not running.
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
			log.FromContext(ctx).Error(err, "Failed to start a daemon or timer; retrying when the object changes", "handler", id)
		}
	}
}

// taskFor returns the task of a daemon or a timer for one object.
func (e *Engine) taskFor(r *reconciliation, id string, b *invoke.BackgroundHandler) (task daemons.Task, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("its InitialDelayFunc panicked: %v", value)
		}
	}()
	backgroundState := r.backgroundState()
	task = b.Task
	task.Policy, task.Kind, task.Object = e.withDefaults(b.Handler).Policy, e.Name, client.ObjectKeyFromObject(r.before)
	uid := r.before.GetUID()
	endAttempt := noHooks
	task.Run = func(ctx context.Context, attempt progress.Attempt) error {
		defer e.awaitRecovery(uid, id, b, backgroundState)()
		return e.invokeBackground(ctx, uid, id, b, backgroundState, attempt, &endAttempt)
	}
	logger := e.logOf(r.before).WithValues("handler", id, "reason", b.Reason())
	task.OnAttempt = func(before progress.Record, outcome progress.Outcome) {
		endAttempt(outcome) // also after a panic; only the first call for an attempt has an effect
		b.Warnings.WarnMissingUnit(logger, outcome)
		if change, ok := panicChangeOf(id, outcome); ok {
			e.noteBackgroundPanic(uid, backgroundState, change)
		}
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
		if !e.existedAtStart(r) && backgroundState.isFirstStart(id) && now().Sub(anchored.Anchor) < t.Interval {
			anchored.Last = anchored.Anchor.Add(-1) // it is new, and its creation is the first point in time
		}
		task.Timer = &anchored
	}
	return task, nil
}

// touchTimers resets the idle times of the timers if another client has changed the essence. Timers that have failed permanently are started again.
func (e *Engine) touchTimers(r *reconciliation) {
	if r.backgroundState().noteEssence(essence.DigestOf(r.cause.Live), r.before.GetResourceVersion()) {
		e.supervisor.Touch(r.before.GetUID())
	}
}

// invokeBackground calls a daemon or a timer with the newest state of its object, and writes the changes that it has made, also if it has failed. It
// runs in the goroutine of the task, concurrently with the worker of the object. The caller must call endAttempt with the outcome.
func (e *Engine) invokeBackground(
	ctx context.Context, uid types.UID, id string, b *invoke.BackgroundHandler, a *backgroundState, attempt progress.Attempt, endAttempt *func(progress.Outcome),
) error {
	suspensions, err := e.waitForFence(ctx)
	if err != nil {
		return err
	}
	shared := e.states.Newest(uid)
	if shared == nil {
		return nil // the object is deleted, and the task is about to be stopped
	}
	obj := shared.DeepCopyObject().(client.Object)
	e.identify(obj)
	r := &reconciliation{known: &objectState{}, before: obj, object: obj, suspensions: suspensions}
	begin := func() error { // the JSON form is needed only if there are changes
		if r.content != nil {
			return nil
		}
		return r.setBase(obj)
	}
	r.grace = newGrace(ctx, b)
	defer r.grace.end()
	ctx = objectstate.ContextWithMemos(ctx, e.states.Memos(uid))
	ctx = log.IntoContext(ctx, e.logOf(obj).WithValues("handler", id, "reason", b.Reason(), "attempt", attempt.Number))
	ctx, *endAttempt = e.beginAttempt(ctx, obj, id, b.Reason(), attempt, time.Time{})
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
	failed := e.withDefaults(b.Handler).Do(ctx, call)
	if call.Result == nil && reflect.DeepEqual(r.object, call.Object) {
		return failed
	}
	if err := begin(); err != nil {
		return cmp.Or(failed, err)
	}
	doc, _, err := e.handlerChanges(ctx, r, id, call.Object)
	doc = r.rebased(doc)
	if failed == nil && call.Result != nil {
		doc = patch.Merge(doc, patchAt(e.Results, map[string]any{id: call.Result}).Unapplied(r.content))
	}
	if doc = doc.Unapplied(r.content); len(doc) > 0 && err == nil {
		err = e.writeBackground(ctx, r, id, doc, a, failed == nil && call.Result != nil)
	}
	return cmp.Or(failed, err)
}

// latest returns a function that returns a copy of the newest known state of an object. For a deleted object, this is the last known state.
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

// enqueuer is a source without events of its own. It enqueues objects whose daemons or timers have ended.
type enqueuer struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// BackgroundSource returns the source of requests that the controller must watch.
func (e *Engine) BackgroundSource() source.Source { return &e.enqueuer }

func (*enqueuer) String() string { return "background" }

// Start implements [source.Source].
func (w *enqueuer) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = queue
	return nil
}

// enqueue enqueues an object, if it exists.
func (e *Engine) enqueue(uid types.UID) {
	obj := e.states.Newest(uid)
	e.enqueuer.mu.Lock()
	defer e.enqueuer.mu.Unlock()
	if obj != nil && e.enqueuer.queue != nil {
		key := client.ObjectKeyFromObject(obj)
		e.states.MarkQueued(key)
		e.enqueuer.queue.Add(reconcile.Request{NamespacedName: key})
	}
}
