package engine

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// reasonEvent is the reason of event handlers.
const reasonEvent = "event"

// WaitingEvents returns the keys of objects with an event handler that is waiting for its next attempt. It is for the test kit.
func (e *Engine) WaitingEvents() (keys []types.NamespacedName) {
	for _, key := range e.others.eventQueues.Keys() {
		if len(e.others.eventQueues.Get(key).events) > 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

// callEventHandlers calls the event handlers for each observed event of a key in order, including the deletion of an object. They store no
// records on the object. While an attempt waits to be retried, later events wait, too. callEventHandlers returns the time until the next
// attempt, or 0 if nothing is left.
func (e *Engine) callEventHandlers(ctx context.Context, key types.NamespacedName) time.Duration {
	queue := e.others.eventQueues.Take(key)
	defer func() { e.putEventQueue(key, queue) }()
	for _, event := range e.states.TakeEvents(key) {
		queue.events = append(queue.events, &eventInProgress{Event: event, memos: e.states.Memos(event.Object.GetUID())})
	}
	for len(queue.events) > 0 {
		event := queue.events[0]
		if left, err := e.hasOnlyLeft(ctx, event); err != nil {
			log.FromContext(ctx).Error(err, "Failed to check whether the object is deleted; its event handlers wait", "retryAfter", e.ConsistencyTimeout.String())
			return e.ConsistencyTimeout
		} else if left {
			queue.events = queue.events[1:]
			continue
		}
		changes, wait := e.callForEvent(ctx, event)
		queue.changes = append(queue.changes, changes...)
		if wait > 0 {
			return wait
		}
		queue.events = queue.events[1:]
		if event.IsDeletion() {
			queue.changes = nil
		}
	}
	return 0
}

// hasOnlyLeft reports whether an event is the deletion of an object that still exists. The object has then only left the cache, for example
// because a user removed its label. A deletion from a watch without a selector isn't checked, because the API server has confirmed it
// already.
func (e *Engine) hasOnlyLeft(ctx context.Context, one *eventInProgress) (bool, error) {
	if !one.IsDeletion() || e.Selector == nil && !one.Inferred {
		return false, nil
	}
	return e.exists(ctx, one.Object)
}

// putEventQueue stores a key's queue. Only the key's worker changes it.
func (e *Engine) putEventQueue(key types.NamespacedName, queue eventQueue) {
	if len(queue.events)+len(queue.changes) > 0 {
		e.others.eventQueues.Set(key, queue)
	}
}

// callForEvent calls the handlers that are due for an event. It returns their changes, and the time until the next attempt, or 0 if all
// have finished.
func (e *Engine) callForEvent(ctx context.Context, event *eventInProgress) (changes []eventChange, wait time.Duration) {
	view, input, err := e.observedView(event.Object, reasonEvent)
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to convert the object to JSON; its event handlers are not called")
		return nil, 0
	}
	view.Event = event.Type
	ctx = objectstate.ContextWithMemos(ctx, event.memos)
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("uid", view.Object.GetUID()))
	for id, handler := range e.EventHandlers.All() {
		record, called := event.records[id]
		if record.Finished() || !called && !plan.MatchObject(log.FromContext(ctx), id, handler, view, input).Accepts() {
			continue
		}
		if record.Due(now()) {
			var change *eventChange
			if record, change = e.callEventHandler(ctx, event, id, handler, view, record); change != nil {
				changes = append(changes, *change)
			}
			if event.records == nil {
				event.records = map[string]progress.Record{}
			}
			event.records[id] = record
		}
		if record.Finished() || hasEnded(ctx) {
			continue
		}
		if left := max(record.Delayed.Sub(now()), time.Millisecond); wait == 0 || left < wait {
			wait = left
		}
	}
	return changes, wait
}

// callEventHandler makes one attempt of a handler. A handler without [progress.Policy.Retries] is not retried.
func (e *Engine) callEventHandler(
	ctx context.Context, event *eventInProgress, id string, h *invoke.Handler, view *invoke.View, record progress.Record,
) (progress.Record, *eventChange) {
	if record.Started.IsZero() {
		record.Started = now()
	}
	var change *eventChange
	outcome := invoke.HandlerAttempt{
		Hooks: e.traits.hooks,
		Kind:  e.Name, ID: id, Handler: h, View: view, Record: record, Once: h.Policy.Retries == nil, QuietSuccess: true,
		Accept: func(req *invoke.Request, failed error) (err error) {
			if h.WritesChanges && !event.IsDeletion() {
				change, err = e.eventChange(ctx, view, req, failed == nil)
			}
			return err
		},
	}.Run(ctx)
	return record.WithOutcome(outcome, now()), change
}

// eventChange returns an attempt's changes and result, or nil if there are none.
func (e *Engine) eventChange(ctx context.Context, view *invoke.View, req *invoke.Request, success bool) (*eventChange, error) {
	received := patch.Converted{Object: view.Object, Content: view.After}
	doc, base, err := e.committer.ChangesOf(ctx, received, req.ID, req.Object)
	if err != nil {
		return nil, err
	}
	change := &eventChange{uid: view.Object.GetUID(), id: req.ID, doc: doc, base: base}
	if success && req.Result != nil {
		change.doc, change.untyped = patch.Merge(doc, patch.At(e.Results, map[string]any{req.ID: req.Result}).Unapplied(base)), true
	}
	if len(change.doc) == 0 {
		return nil, nil
	}
	return change, nil
}

// takeEventChanges adds event handlers' changes to those that the reconcile writes.
func (e *Engine) takeEventChanges(ctx context.Context, r *reconciliation) {
	key := client.ObjectKeyFromObject(r.draft.Base())
	queue := e.others.eventQueues.Take(key)
	changes := queue.changes
	queue.changes = nil
	e.putEventQueue(key, queue)
	for _, change := range changes {
		doc := change.doc.Rebase(change.base, r.draft.Current().Content)
		if change.uid != r.draft.Base().GetUID() || r.session.Gone || len(doc) == 0 {
			continue
		}
		p := &commit.HandlerPatch{ID: change.id, Patch: doc, Untyped: change.untyped, Base: r.draft.Current().Content}
		if err := r.draft.Apply(doc); err != nil {
			log.FromContext(ctx).Error(err, "Failed to apply the changes of an event handler; they are not written", "handler", change.id)
			continue
		}
		r.draft.Add(p)
	}
}
