package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/background"
	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/internal/tracking"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// detect reads the stored progress, computes the cause, and finds the cause handlers that match the object.
func (e *Engine) detect(ctx context.Context, r *reconciliation) {
	stored := e.computeCause(ctx, r, nil)
	if len(stored) > 0 && r.session.Cause.Unchanged {
		r.details.Background.Drop(stored...)
	} else {
		r.edits = stored
	}
	r.known.Worker.SeenAlive = r.known.Worker.SeenAlive || !r.session.Cause.Deleting
	e.matchHandlers(ctx, r)
}

// computeCause reads the stored progress and computes the cause. It returns the edits by daemons and timers that the object contains. unreadable receives the errors of
// stored data that cannot be decoded. If it is nil, they are logged and counted.
func (e *Engine) computeCause(ctx context.Context, r *reconciliation, unreadable func(error)) (stored []*background.Edit) {
	logger := log.FromContext(ctx)
	state, err := progress.Load(e.Store, r.draft.Base(), e.Handlers.IDs())
	for id, handler := range e.Handlers.All() {
		for _, earlier := range handler.EarlierIDs {
			err = errors.Join(err, state.Rename(e.Store, r.draft.Base(), id, earlier))
		}
	}
	switch {
	case err != nil && unreadable != nil:
		unreadable(fmt.Errorf("the stored progress is unreadable and treated as absent: %w", err))
	case err != nil:
		metrics.UnreadableState.WithLabelValues(e.Name).Inc()
		logger.Info("Stored progress is unreadable and treated as absent", "error", err.Error())
	}
	baseline := e.Baseline.Fetch(r.draft.Base())
	history, replaced := e.history(r, baseline)
	var edits []cause.BackgroundEdit
	if state := r.details.Background; state != nil { // the baseline may lack edits by daemons and timers
		stored, edits = state.EditsIn(r.draft.Base(), r.draft.Content())
		r.session.NoteRaise(state.Raised())
	}
	r.session.Records = state
	r.setCause(e.detector.Detect(cause.Input{
		Facts: cause.Facts{
			Gone:         r.session.Gone,
			Deleting:     r.draft.Base().GetDeletionTimestamp() != nil,
			HasFinalizer: e.hasFinalizer(r.draft.Base()) && !(r.draft.Base().GetDeletionTimestamp() != nil && r.details.isContested()),
			Initial:      !r.known.Worker.Handled && r.known.ExistedAtStart,
		},
		Content:  r.draft.Content(),
		Baseline: baseline,
		Pin:      e.Pin.Fetch(r.draft.Base()),
		Progress: state,
		History:  history,
		Replaced: replaced,
		Edits:    edits,
		Log:      logger,

		Unreadable: unreadable,
	}))
	switch r.session.Cause.Reset {
	case cause.RestartUpdate:
		state.Restart(string(cause.Update))
	case cause.RestartAllCauses:
		state.RestartAll()
	case cause.KeepProgress:
	}
	return stored
}

// history returns the baselines of the object that this process has stored, and the last one if another client has replaced it. It returns no history if a peer
// may have handled the object during a pause.
func (e *Engine) history(r *reconciliation, baseline []byte) (history *cause.BaselineHistory, replaced []byte) {
	if r.details.Memory.PausesAtBaseline != e.pauses.Load() {
		return nil, nil
	}
	history = r.details.Memory.Baselines
	if baseline != nil && history.BaselineReplaced(baseline) {
		replaced = e.states.BaselineBeforeReplacement(r.draft.Base().GetUID())
	}
	return history, replaced
}

// retype converts an essence to the Go type of the kind and back.
func (e *Engine) retype(stored map[string]any) (map[string]any, error) {
	obj, err := e.decodeEssence(stored, nil)
	if err != nil {
		return nil, err
	}
	if _, untyped := obj.(*unstructured.Unstructured); untyped {
		return stored, nil
	}
	content, err := patch.Content(obj)
	if err != nil {
		return nil, err
	}
	typed := e.detector.Essence.Build(content)
	if conditionStatuses, ok := stored[essence.ConditionsKey]; ok { // no Go type has them
		typed[essence.ConditionsKey] = conditionStatuses
	}
	return typed, nil
}

// decodeEssence converts an essence to an object. text is the encoded essence, or nil.
func (e *Engine) decodeEssence(of map[string]any, text []byte) (client.Object, error) {
	obj := e.New()
	if u, ok := obj.(*unstructured.Unstructured); ok {
		copied := (&unstructured.Unstructured{Object: of}).DeepCopy()
		delete(copied.Object, essence.ConditionsKey)
		u.Object = copied.Object
	} else {
		if text == nil {
			var err error
			if text, err = json.Marshal(of); err != nil {
				return nil, err
			}
		}
		if err := json.Unmarshal(text, obj); err != nil {
			return nil, err
		}
	}
	e.identify(obj)
	return obj, nil
}

// objectOf converts an essence to an object. It returns nil if the essence does not fit the Go type; [Engine.detect] has logged that.
func (e *Engine) objectOf(r *reconciliation, of map[string]any) client.Object {
	obj, err := e.decodeEssence(of, r.session.Cause.StoredTextOf(of))
	if err != nil {
		obj = nil
	} else {
		obj.SetNamespace(r.draft.Base().GetNamespace())
		obj.SetName(r.draft.Base().GetName())
	}
	return obj
}

// oldObject returns a copy of the object with the last-handled configuration; nil if there is none, or if it is not known.
func (e *Engine) oldObject(r *reconciliation) client.Object {
	if r.old == nil && r.session.Cause.Old != nil {
		r.old = e.objectOf(r, r.session.Cause.Old)
	}
	if r.old == nil {
		return nil
	}
	return r.old.DeepCopyObject().(client.Object)
}

// handledObject returns the object with the essence that is being handled, if the object was edited after the cycle began. Otherwise, or if the pin contains
// only a digest, it returns nil.
func (e *Engine) handledObject(r *reconciliation) client.Object {
	if r.session.Cause.Reason != cause.Create && r.session.Cause.Reason != cause.Update || r.session.Cause.PinnedDigest != "" || !r.session.Cause.WasEdited() {
		return nil
	}
	return e.objectOf(r, r.session.Cause.New)
}

// matchHandlers finds the cause handlers whose filters accept the object, and sets the cause for them.
func (e *Engine) matchHandlers(ctx context.Context, r *reconciliation) {
	view := e.causeView(r)
	r.matching = matching{view: view, handlers: plan.Matching(log.FromContext(ctx), &e.Handlers, view, r.subject())}
	r.session.Unmatched = len(r.matching.handlers) == 0
	r.setCause(e.causeFor(r.session.Cause, r.draft.Base(), r.session.Unmatched))
}

// causeFor returns the cause for the handlers that match an object. If no handler matches, the engine only removes its own data from the object.
func (e *Engine) causeFor(c cause.Cause, obj client.Object, unmatched bool) cause.Cause {
	if !unmatched {
		// Another version of the operator may have stored the text, which is confidential.
		c.OutdatedBaseline = c.OutdatedBaseline || e.DigestOnly && !e.detector.Stateless && e.committer.Builder.Baseline.HasText(obj)
		return c
	}
	if c.Reason.HasHandlers() && c.Reason != cause.Delete {
		c.Reason = cause.Noop
	}
	c.StalePin = c.StalePin || !e.detector.Stateless && e.Pin.Fetch(obj) != nil
	return c
}

// causeView returns the view of the object and the cause, for the predicates of handlers.
func (e *Engine) causeView(r *reconciliation) *invoke.View {
	return &invoke.View{
		Object: r.draft.Current().Object, Reason: string(r.session.Cause.Reason), Old: func() client.Object { return e.oldObject(r) }, Handled: func() client.Object { return e.handledObject(r) },
		OldUnknown: !r.session.Cause.IsOldKnown(), Diff: r.session.Cause.Diff, Before: r.session.Cause.Old, After: r.session.Cause.New,
		ConditionOptions: append(e.conditionPlaces, conditions.Since(r.draft.Base())), Latest: func() client.Object { return e.latest(r.draft.Base()) }, Notify: e.events.NotifierFor(r.draft.Base()),
	}
}

// attemptView returns the view for an attempt. It contains the changes of earlier handlers.
func (r *reconciliation) attemptView() *invoke.View {
	view := *r.matching.view
	view.Object, view.Reason, view.Before, view.After = r.draft.Current().Object, string(r.session.Cause.Reason), r.session.Cause.Old, r.session.Cause.New
	view.ConditionOptions = append(r.engine.conditionPlaces, conditions.Since(r.draft.Base()))
	return &view
}

// selectHandlers finds the handlers that are called for the cause.
func (e *Engine) selectHandlers(ctx context.Context, r *reconciliation) {
	if !r.session.Cause.Reason.HasHandlers() {
		return
	}
	situation := match.Cause{
		Reason:   string(r.session.Cause.Reason),
		Initial:  cause.RunsResumeHandlers(r.session.Cause.Reason, r.session.Cause.Facts),
		Deleting: r.session.Cause.Facts.Deleting,
	}
	r.matching.selection = plan.Select(log.FromContext(ctx), &e.Handlers, r.matching.handlers, r.matching.view, situation, r.subject())
	if r.session.Cause.Facts.Initial {
		e.selectResuming(r)
	}
}

// selectResuming corrects the selection for an object of the first listing: what resume handlers have done belongs to the process, for example a connection.
// A success that an earlier process has stored therefore does not count, and a handler that this process has called is not called again.
func (e *Engine) selectResuming(r *reconciliation) {
	if r.session.Cause.Reason == cause.Create {
		if r.details.Creation == unknownCreation {
			r.details.Creation = ownCreation
			if r.session.Records.HasAttempts(string(cause.Create)) {
				r.details.Creation = earlierCreation
			}
		}
		return
	}
	r.matching.selection.Selected = slices.DeleteFunc(r.matching.selection.Selected, func(id string) bool {
		handler, _ := e.Handlers.Get(id)
		switch isHere := slices.Contains(r.details.Resumed, id); {
		case !handler.Resumes() || r.session.Cause.Reason == cause.Delete && !slices.Contains(r.matching.selection.Resuming, id):
		case r.session.Cause.Reason == cause.Resume && r.details.Creation == earlierCreation && !handler.Creates():
			return true // it is not called for objects that were just created
		case !isHere:
			for _, one := range append([]string{id}, r.session.Records.Record(id).Subrefs...) {
				if !slices.Contains(r.details.Resumed, one) {
					r.session.Records.Redo(one)
				}
			}
		case r.session.Cause.Reason == cause.Resume:
			return !r.session.Records.Record(id).Finished() // it was called for the creation
		}
		return false
	})
}

// makePlan begins or continues the cause, and plans the calls of this reconcile.
func (e *Engine) makePlan(ctx context.Context, r *reconciliation) {
	if !r.session.Cause.Reason.HasHandlers() {
		return
	}
	r.session.Records.Relabel(string(r.session.Cause.Reason), r.matching.selection.Resuming)
	for purpose, sum := range r.session.Records.Begin(string(r.session.Cause.Reason), r.matching.selection.Selected, now()) {
		log.FromContext(ctx).Info("Another cause has superseded an unfinished one", "cause", purpose, "by", r.session.Cause.Reason,
			"succeeded", sum.Succeeded, "failed", sum.Failed, "left", sum.Left)
	}
	if r.calls.relatedChange {
		r.retryNow()
	}
	if r.session.Cause.Reason == cause.Delete {
		r.known.Worker.OptionalDeleteCalled = true // optional delete handlers are called together with the other delete handlers
	}
	if !r.session.Cause.Reversed { // this reconcile stores the reversal; the next one calls handlers
		e.planNext(ctx, r)
	}
}

// noteRelatedChange notes whether a related object has changed since the last reconcile. Handlers that are not selected for the cause track no objects any more.
func (r *reconciliation) noteRelatedChange() {
	r.calls.relatedChange = r.takeChanges()
	for id, handler := range r.engine.Handlers.All() {
		if handler.RetriesOnRelatedChange && !slices.Contains(r.matching.selection.Selected, id) {
			r.engine.tracker.Forget(tracking.Reader{Object: client.ObjectKeyFromObject(r.draft.Base()), Handler: id})
		}
	}
}

// retryNow makes the waiting handlers due that changes of related objects call, with their sub-handlers. The next attempt takes the place of the last one, so that
// changes do not use up the retries.
func (r *reconciliation) retryNow() {
	at := now()
	for _, id := range r.matching.selection.Selected {
		if handler, _ := r.engine.Handlers.Get(id); !handler.RetriesOnRelatedChange {
			continue
		}
		for _, id := range append([]string{id}, r.session.Records.Record(id).Subrefs...) {
			record := r.session.Records.Record(id)
			if record.Finished() || !record.Delayed.After(at) {
				continue
			}
			if record.Retries > 0 && !record.WaitsForSubs() {
				record.Retries--
			}
			record.Delayed = at
			r.session.Records.SetRecord(id, record)
		}
	}
}

// planNext plans the next calls. If the lifecycle has left handlers for another reconcile, no other handler is called in this reconcile.
func (e *Engine) planNext(ctx context.Context, r *reconciliation) {
	if r.calls.plan.Limited {
		r.calls.plan.Next = nil
		return
	}
	r.calls.plan = plan.Make(&e.Handlers, r.matching.selection.Selected, r.calls.called, r.session.Records.Record, e.Lifecycle, now())
	for _, skip := range r.calls.plan.Skipped {
		err := skip.Err()
		log.FromContext(ctx).Info("Handler skipped permanently", "handler", skip.ID, "reason", r.session.Cause.Reason, "error", err.Error())
		r.session.Records.RecordOutcome(skip.ID, progress.Outcome{Err: err, Final: true}, now())
	}
}

// schedule returns when the object must be reconciled again.
func (e *Engine) schedule(r *reconciliation) reconcile.Result {
	at := now()
	delay, left := e.untilNext(r, at)
	priority := new(retrying)
	if next := r.nextReconcile(); next != nil && (!left || next.due.Sub(at) < delay) {
		delay, left, priority = next.due.Sub(at), true, next.priority
	}
	if !left {
		return reconcile.Result{}
	}
	result := requeue(delay)
	result.Priority = priority
	return result
}

// untilNext returns the time until there is something to do for the cause, and false if there is nothing.
func (e *Engine) untilNext(r *reconciliation, at time.Time) (delay time.Duration, left bool) {
	return plan.Schedule(plan.Situation{Reason: r.session.Cause.Reason, Finished: r.session.IsFinished(), Edited: r.session.Cause.WasEdited(), Plan: r.calls.plan}, r.session.Records, at)
}

// ensureFinalizer adds the finalizer before the first handler that needs it is called, and removes it when no handler needs it. Handlers are
// called when the cache shows the finalizer: a handler that reads or updates its object with a client would otherwise use an outdated state.
// ensureFinalizer returns the time to wait; 0 to continue.
func (e *Engine) ensureFinalizer(ctx context.Context, r *reconciliation) (time.Duration, error) {
	action := e.finalizerAction(r)
	if action == cause.KeepFinalizer {
		return 0, nil
	}
	if action == cause.RemoveFinalizer && !r.session.Cause.Deleting {
		if r.details.FinalizerRemovals++; r.details.isContested() {
			e.warnFinalizerContested(ctx, r)
			return 0, nil
		}
	}
	change := &patch.Change{Before: r.draft.Base(), Content: r.draft.Content(), AddFinalizer: e.Finalizer}
	if action == cause.RemoveFinalizer {
		change.AddFinalizer, change.RemoveFinalizer = "", e.Finalizer
	}
	log.FromContext(ctx).V(1).Info("Changing the finalizer", "add", change.AddFinalizer, "remove", change.RemoveFinalizer)
	defer r.noteResult()
	return e.ConsistencyTimeout, r.session.Send(ctx, change)
}

// finalizerAction decides whether the finalizer must be added or removed.
func (e *Engine) finalizerAction(r *reconciliation) cause.FinalizerAction {
	needed := e.background.NeedsFinalizer(r.draft.Base().GetUID(), r.matching.background) || slices.ContainsFunc(r.matching.handlers, func(id string) bool {
		handler, _ := e.Handlers.Get(id)
		return handler.IsMandatoryDelete()
	})
	if needed {
		r.details.FinalizerRemovals = 0
	} else if r.details.isContested() {
		return cause.KeepFinalizer
	}
	return cause.DecideFinalizer(r.session.Cause.Facts, needed)
}

// warnFinalizerContested reports that another client keeps adding the finalizer. The engine then leaves it to that client.
func (e *Engine) warnFinalizerContested(ctx context.Context, r *reconciliation) {
	const note = "Another client keeps adding the finalizer, which no handler of this operator needs: leaving it to that client. " +
		"If two operators handle the kind, one of them needs another name: WithFinalizer"
	log.FromContext(ctx).Info(note, "finalizer", e.Finalizer)
	e.events.Warn(r.draft.Base(), "FinalizerContested", note)
}

// evaluate detects the cause, and finds the handlers, daemons and timers that match the object.
func (e *Engine) evaluate(ctx context.Context, r *reconciliation) error {
	if e.Remote != nil || r.details.Memory.Overlay != nil { // progress that is not stored on the object
		if err := r.session.UseOverlay(ctx); err != nil {
			return err
		}
	}
	e.detect(ctx, r)
	if len(e.BackgroundHandlers.IDs()) > 0 {
		r.matching.background = e.background.Select(ctx, r.draft.Base(), r.matching.view, r.draft.Content())
		if !r.session.Cause.Deleting {
			e.background.Touch(r.draft.Base(), r.session.Cause.Live, r.backgroundState())
		}
	}
	return nil
}

// nextReconcile returns the state of the reconcile handler that is due next without a change; nil if there is none. A handler that waits for another one is called after
// that one.
func (r *reconciliation) nextReconcile() (next *reconcileHandlerState) {
	for id, st := range r.details.ReconcileHandlers {
		handler, _ := r.engine.ReconcileHandlers.Get(id)
		if !st.due.IsZero() && (next == nil || st.due.Before(next.due)) && r.blockingHandler(handler) == "" {
			next = st
		}
	}
	return next
}
