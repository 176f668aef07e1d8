package engine

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// reasonEvent is the reason of event handlers.
const reasonEvent = "event"

// callEventHandlers calls the event handlers for each observed event of a key, in order, also for the deletion of an object. Event handlers have no
// progress on the object.
func (e *Engine) callEventHandlers(ctx context.Context, key types.NamespacedName) {
	for _, event := range e.states.TakeEvents(key) {
		view, input, err := e.observedView(event.Object, reasonEvent)
		if err != nil {
			log.FromContext(ctx).Error(err, "The object has no JSON form")
			continue
		}
		view.Event = event.Type
		ctx := objectstate.ContextWithMemos(ctx, e.states.Memos(view.Object.GetUID()))
		ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("uid", view.Object.GetUID()))
		for _, id := range e.EventHandlers.IDs() {
			handler, _ := e.EventHandlers.Get(id)
			if plan.MatchObject(log.FromContext(ctx), id, handler, view, input) {
				invoke.HandlerAttempt{
					Kind: e.Name, ID: id, Handler: handler, View: view, Record: progress.Record{Started: now()}, Once: true, QuietSuccess: true,
				}.Run(ctx)
			}
		}
	}
}

// observedView returns the view and the input of filters for handlers that are called for an observed state of an object.
func (e *Engine) observedView(observed client.Object, reason string) (*invoke.View, match.Input, error) {
	obj := observed.DeepCopyObject().(client.Object)
	e.identify(obj)
	content, err := patch.Content(obj)
	if err != nil {
		return nil, match.Input{}, err
	}
	view := &invoke.View{
		Object: obj, Reason: reason, Before: content, After: content, ConditionOptions: e.conditionOptions(), Notify: e.notifierFor(obj),
	}
	return view, match.Input{Object: content}, nil
}
