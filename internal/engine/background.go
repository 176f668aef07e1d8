package engine

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/internal/commit"
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
	e.states.UpdateIfNewer(r.Base())
	if r.Cause.Facts.Deleting {
		e.supervisor.StopAll(r.Base().GetUID(), daemons.ErrDeleted)
		return
	}
	for _, id := range e.BackgroundHandlers.IDs() {
		background, _ := e.BackgroundHandlers.Get(id)
		if !plan.MatchObject(log.FromContext(ctx), id, background.Handler, r.matching.view, match.Input{Object: r.Content()}).Accepts() {
			e.supervisor.Stop(daemons.Key{UID: r.Base().GetUID(), ID: id}, daemons.ErrFilteredOut)
			continue
		}
		r.matching.background = append(r.matching.background, id)
	}
	e.touchTimers(r)
}

// backgroundNeedsFinalizer reports whether a daemon or a timer of the object is running or may be started.
func (e *Engine) backgroundNeedsFinalizer(r *reconciliation) bool {
	uid := r.Base().GetUID()
	return e.supervisor.Busy(uid) || slices.ContainsFunc(r.matching.background, func(id string) bool {
		return !e.supervisor.Ended(daemons.Key{UID: uid, ID: id})
	})
}

// startBackground starts the selected daemons and timers that are not running.
func (e *Engine) startBackground(ctx context.Context, r *reconciliation) {
	for _, id := range r.matching.background {
		key := daemons.Key{UID: r.Base().GetUID(), ID: id}
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
	task.Policy, task.Kind, task.Object = e.withDefaults(b.Handler).Policy, e.Name, client.ObjectKeyFromObject(r.Base())
	uid := r.Base().GetUID()
	endAttempt := func(progress.Outcome) {}
	task.Run = func(ctx context.Context, attempt progress.Attempt) error {
		return e.invokeBackground(ctx, uid, id, b, backgroundState, attempt, &endAttempt)
	}
	logger := e.logOf(r.Base()).WithValues("handler", id, "reason", b.Reason())
	task.OnAttempt = func(before progress.Record, outcome progress.Outcome) {
		endAttempt(outcome) // also after a panic; only the first call for an attempt has an effect
		b.Warnings.WarnMissingUnit(logger, outcome)
		backgroundState.reportOutcome(id, func(failed bool) bool {
			return e.postTransition(e.states.Newest(uid), id, failed, before, outcome)
		})
	}
	if b.InitialDelay != nil {
		task.InitialDelay = max(0, b.InitialDelay(r.Base().DeepCopyObject().(client.Object)))
	}
	if t := b.Task.Timer; t != nil && t.Sharp {
		anchored := *t
		anchored.Anchor = r.Base().GetCreationTimestamp().Time
		if !e.existedAtStart(r) && backgroundState.isFirstStart(id) && now().Sub(anchored.Anchor) < t.Interval {
			anchored.Last = anchored.Anchor.Add(-1) // it is new, and its creation is the first point in time
		}
		task.Timer = &anchored
	}
	return task, nil
}

// touchTimers resets the idle times of the timers if another client has changed the essence. Timers that have failed permanently are started again.
func (e *Engine) touchTimers(r *reconciliation) {
	if r.backgroundState().noteEssence(essence.DigestOf(r.Cause.Live), r.Base().GetResourceVersion()) {
		e.supervisor.Touch(r.Base().GetUID())
	}
}

// backgroundCall is one call of a daemon or a timer.
type backgroundCall struct {
	engine      *Engine
	id          string
	obj         client.Object // the state that the function has received
	state       *backgroundState
	suspensions int64
	grace       *grace
	// draft is the object with the changes of the function. It is nil until there are changes, because the JSON form is expensive.
	draft *commit.Draft
}

// begin creates the draft if there is none.
func (c *backgroundCall) begin() (err error) {
	if c.draft == nil {
		c.draft, err = commit.NewDraft(c.engine.New, c.obj)
	}
	return err
}

// isUnchanged reports whether the function has changed nothing in its copy of the object since the last flush.
func (c *backgroundCall) isUnchanged(copied client.Object) bool {
	received := c.obj
	if c.draft != nil {
		received = c.draft.Current().Object
	}
	return reflect.DeepEqual(received, copied)
}

// invokeBackground calls a daemon or a timer with the newest state of its object, and writes the changes that it has made, also if it has failed. It
// runs in the goroutine of the task, concurrently with the worker of the object. The caller must call endAttempt with the outcome.
func (e *Engine) invokeBackground(
	ctx context.Context, uid types.UID, id string, b *invoke.BackgroundHandler, state *backgroundState, attempt progress.Attempt, endAttempt *func(progress.Outcome),
) error {
	suspensions, err := e.committer.AwaitFence(ctx)
	if err != nil {
		return err
	}
	shared := e.states.Newest(uid)
	if shared == nil {
		return nil // the object is deleted, and the task is about to be stopped
	}
	obj := shared.DeepCopyObject().(client.Object)
	e.identify(obj)
	c := &backgroundCall{engine: e, id: id, obj: obj, state: state, suspensions: suspensions, grace: newGrace(ctx, b)}
	defer c.grace.end()
	ctx = objectstate.ContextWithMemos(ctx, e.states.Memos(uid))
	ctx = log.IntoContext(ctx, e.logOf(obj).WithValues("handler", id, "reason", b.Reason(), "attempt", attempt.Number))
	ctx, *endAttempt = e.hooks.Begin(ctx, obj, invoke.AttemptInfo{Handler: id, Reason: b.Reason(), Attempt: attempt})
	view := &invoke.View{Object: obj, Reason: b.Reason(), ConditionOptions: e.conditionOptions(), Latest: e.latest(obj), Notify: e.notifierFor(obj)}
	if b.Field != nil {
		if err := c.begin(); err != nil {
			return err
		}
		view.Before, view.After = c.draft.Content(), c.draft.Content()
	}
	req := view.NewRequest(id, b.Handler, attempt)
	req.Flush = func(ctx context.Context) error { return c.flush(ctx, req.Object) }
	failed := e.withDefaults(b.Handler).Do(ctx, req)
	if req.Result == nil && c.isUnchanged(req.Object) {
		return failed
	}
	return cmp.Or(failed, c.writeChanges(ctx, req, failed == nil))
}

// writeChanges writes the changes of the function, and its result if it has succeeded.
func (c *backgroundCall) writeChanges(ctx context.Context, req *invoke.Request, succeeded bool) error {
	if err := c.begin(); err != nil {
		return err
	}
	changed, _, err := c.engine.committer.ChangesOf(ctx, c.draft.Current(), c.id, req.Object)
	if err != nil {
		return err
	}
	doc, hasResult := c.draft.Rebased(changed), succeeded && req.Result != nil
	if hasResult {
		doc = patch.Merge(doc, commit.PatchAt(c.engine.Results, map[string]any{c.id: req.Result}).Unapplied(c.draft.Content()))
	}
	if doc = doc.Unapplied(c.draft.Content()); len(doc) == 0 {
		return nil
	}
	_, err = c.write(ctx, doc, hasResult)
	return err
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
