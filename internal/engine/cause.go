package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/background"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// detectCause detects the cause, and finds the handlers, daemons and timers that match the object.
func (e *Engine) detectCause(ctx context.Context, r *reconciliation) (Hold, error) {
	if e.Remote != nil || r.details.Memory.Overlay != nil { // progress that is not stored on the object
		if err := r.session.UseOverlay(ctx); err != nil {
			return Hold{}, err
		}
	}
	if stored := e.detect(ctx, r, nil); len(stored) > 0 && r.session.Cause.Unchanged {
		r.details.Background.Drop(stored...)
	} else {
		r.edits = stored
	}
	r.known.Worker.SeenAlive = r.known.Worker.SeenAlive || !r.session.Cause.Deleting
	if len(e.BackgroundHandlers.IDs()) > 0 {
		r.matching.background = e.background.runner.Select(ctx, r.draft.Base(), r.matching.view, r.draft.Content())
		if !r.session.Cause.Deleting {
			e.background.runner.Touch(r.draft.Base(), r.session.Cause.Live, r.backgroundState())
		}
	}
	return Hold{}, nil
}

// makeWhole makes an object of a lean cache whole, unless there is nothing to do for it, as for most objects when the operator starts.
func (e *Engine) makeWhole(_ context.Context, r *reconciliation) (Hold, error) {
	reason := r.session.Cause.Reason
	if isAtRest := reason == cause.Noop || reason == cause.Resume; e.lean == nil || isAtRest && !e.traits.reportsConditions && !e.hasWork(r) {
		return Hold{}, nil
	}
	if err := r.draft.MakeWhole(); err != nil {
		return Hold{}, err
	}
	r.matching.view = r.causeView()
	return Hold{}, nil
}

// detect reads the stored progress, computes the cause, and finds the cause handlers whose filters accept the object. It returns those
// edits by daemons and timers that the object contains. unreadable is called if stored data cannot be decoded; if it is nil, such errors
// are logged and counted.
func (e *Engine) detect(ctx context.Context, r *reconciliation, unreadable func(error)) (stored []*background.Edit) {
	r.session.Records = e.loadRecords(ctx, r, unreadable)
	baseline := e.Baseline.Fetch(r.draft.Base())
	history, replaced := e.history(r, baseline)
	var edits []cause.BackgroundEdit
	if state := r.details.Background; state != nil { // the baseline may lack edits by daemons and timers
		stored, edits = state.EditsIn(r.draft.Base(), r.draft.Content())
		r.session.NoteRaise(state.Raised())
	}
	isDeleting := r.draft.Base().GetDeletionTimestamp() != nil
	detected := e.detector.Detect(cause.Input{
		Facts: cause.Facts{
			Gone:         r.session.Gone,
			Deleting:     isDeleting,
			HasFinalizer: e.hasFinalizer(r.draft.Base()) && !(isDeleting && r.details.isContested()),
			Initial:      !r.known.Worker.Handled && r.known.ExistedAtStart,
		},
		Content:  r.draft.Content(),
		Baseline: baseline,
		Pin:      e.Pin.Fetch(r.draft.Base()),
		Progress: r.session.Records,
		History:  history,
		Replaced: replaced,
		Edits:    edits,
		Log:      log.FromContext(ctx),

		Unreadable: unreadable,
	})
	switch detected.Reset {
	case cause.RestartUpdate:
		r.session.Records.Restart(string(cause.Update))
	case cause.RestartAllCauses:
		r.session.Records.RestartAll()
	case cause.KeepProgress:
	}
	r.session.Cause = detected // predicates may ask for the old object
	view := r.causeView()
	r.matching = matching{detected: detected.Reason, view: view, handlers: plan.Matching(log.FromContext(ctx), &e.Handlers, view, r.subject())}
	r.session.Unmatched = len(r.matching.handlers) == 0
	r.session.Cause = e.causeFor(detected, r.draft.Base(), r.session.Unmatched)
	e.findRequests(r)
	e.findRevisions(r)
	return stored
}

// loadRecords reads the cause handlers' stored progress.
func (e *Engine) loadRecords(ctx context.Context, r *reconciliation, unreadable func(error)) *progress.State {
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
		log.FromContext(ctx).Info("Stored progress is unreadable and treated as absent", "error", err.Error())
	}
	return state
}

// history returns the baselines that this process has stored on the object, and the last one if another client has replaced it. If a peer
// may have handled the object during a pause, there is no history.
func (e *Engine) history(r *reconciliation, baseline []byte) (history *cause.BaselineHistory, replaced []byte) {
	if r.details.Memory.PausesAtBaseline != e.pause.count.Load() {
		return nil, nil
	}
	history = r.details.Memory.Baselines
	if baseline != nil && history.BaselineReplaced(baseline) {
		replaced = e.states.BaselineBeforeReplacement(r.draft.Base().GetUID())
	}
	return history, replaced
}

// retype converts an essence to the kind's Go type and back.
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

// objectOf converts an essence to an object. It returns nil if the essence doesn't fit the Go type; [Engine.detect] has logged that.
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

// oldObject returns a copy of the object with the last-handled configuration, or nil if there is none or it isn't known.
func (e *Engine) oldObject(r *reconciliation) client.Object {
	if r.old == nil && r.session.Cause.Old != nil {
		r.old = e.objectOf(r, r.session.Cause.Old)
	}
	if r.old == nil {
		return nil
	}
	return r.old.DeepCopyObject().(client.Object)
}

// handledObject returns the object with the essence that is being handled, if the object was edited after the cycle began. Otherwise, or if
// the pin is only a digest, it returns nil.
func (e *Engine) handledObject(r *reconciliation) client.Object {
	if r.session.Cause.Reason != cause.Create && r.session.Cause.Reason != cause.Update || r.session.Cause.PinnedDigest != "" || !r.session.Cause.WasEdited() {
		return nil
	}
	return e.objectOf(r, r.session.Cause.New)
}

// causeFor adapts a cause to the handlers that match an object. If none matches, the engine only removes its own data from the object.
func (e *Engine) causeFor(c cause.Cause, obj client.Object, unmatched bool) cause.Cause {
	if !unmatched {
		// A different version of the operator may have stored the text, which is confidential.
		c.OutdatedBaseline = c.OutdatedBaseline || e.DigestOnly && !e.detector.Stateless && e.committer.Builder.Baseline.HasText(obj)
		return c
	}
	if c.Reason.HasHandlers() && c.Reason != cause.Delete {
		c.Reason = cause.Noop
	}
	c.StalePin = c.StalePin || !e.detector.Stateless && e.Pin.Fetch(obj) != nil
	return c
}

// causeView returns the view of the object and the cause for handlers' predicates.
func (r *reconciliation) causeView() *invoke.View {
	return &invoke.View{
		Object: r.draft.Current().Object, Reason: string(r.session.Cause.Reason), OldUnknown: !r.session.Cause.IsOldKnown(), Diff: r.session.Cause.Diff,
		Before: r.session.Cause.Old, After: r.session.Cause.New, Fill: r.fillView,
	}
}

// fillView completes a view of the object and the cause.
func (r *reconciliation) fillView(view *invoke.View) {
	e, base := r.engine, r.draft.Base()
	view.Old, view.Handled = func() client.Object { return e.oldObject(r) }, func() client.Object { return e.handledObject(r) }
	view.Latest, view.Notify = func() client.Object { return e.latest(base) }, e.events.NotifierFor(base)
	view.ConditionOptions = append(e.traits.conditionPlaces, conditions.Since(base))
}

// attemptView returns the view for an attempt, which includes earlier handlers' changes.
func (r *reconciliation) attemptView() *invoke.View {
	view := *r.matching.view
	view.Object, view.Reason, view.Before, view.After = r.draft.Current().Object, string(r.session.Cause.Reason), r.session.Cause.Old, r.session.Cause.New
	view.Fill = r.fillView
	return &view
}

// selectOrHold selects the handlers for the cause, and holds them if one of the operator's holds applies.
func (e *Engine) selectOrHold(ctx context.Context, r *reconciliation) (Hold, error) {
	e.selectHandlers(ctx, r)
	hold := e.causeHold(r)
	if hold.isActive() {
		log.FromContext(ctx).V(1).Info("The handlers of the cause are called later", "reason", r.session.Cause.Reason, "why", hold.Message)
	}
	return hold, nil
}

func (e *Engine) checkCause(s subject) Hold {
	if len(e.CauseHolds) == 0 {
		return Hold{}
	}
	r := e.evaluate(s)
	if r == nil {
		return Hold{}
	}
	return e.causeHold(r)
}

// evaluate detects the cause of an object and selects its handlers, without side effects. It returns nil if that is impossible.
func (e *Engine) evaluate(s subject) *reconciliation {
	r := e.newReconciliation(s.known)
	ctx := log.IntoContext(context.Background(), logr.Discard())
	if r.draft.SetBase(s.obj) != nil || r.session.UseOverlay(ctx) != nil {
		return nil
	}
	e.detect(ctx, r, func(error) {})
	e.selectHandlers(ctx, r)
	return r
}

func (e *Engine) causeHold(r *reconciliation) Hold {
	if len(r.matching.selection.Selected) == 0 {
		return Hold{}
	}
	for _, one := range e.CauseHolds {
		if hold := one.Check(r.draft.Base(), r.session.Cause.Reason); hold.Message != "" {
			hold.Reason, hold.Scope = one.Reason, HoldsCauses
			return hold
		}
	}
	return Hold{}
}

// holdCauses holds the cause's handlers. If none was called for it yet, the reconcile continues as if nothing had changed. Otherwise it
// continues the cycle without calls, so that the records and the pin stay. An earlier step's hold takes precedence.
func (r *reconciliation) holdCauses(hold Hold) {
	if r.held.isActive() {
		return
	}
	if r.held = hold; !r.session.Records.HasRecords(r.session.Cause.Purpose()) {
		r.session.Cause, r.matching.selection = r.session.Cause.WithReason(cause.Noop), plan.Selection{}
	}
}
