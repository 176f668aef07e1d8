package engine

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/execution"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// reasonEvent is the reason of handlers that only watch.
const reasonEvent = "event"

// spy shows the observed states of a name to the handlers that only watch, each of them, in order, the
// last state of a deleted object included. It leaves no trace on the object.
func (e *Engine) spy(ctx context.Context, key types.NamespacedName) {
	for _, sight := range e.states.TakeEvents(key) {
		obj := sight.Object.DeepCopyObject().(client.Object)
		e.identify(obj)
		content, err := patch.Content(obj)
		if err != nil {
			log.FromContext(ctx).Error(err, "The object has no JSON form")
			continue
		}
		ctx := objectstate.ContextWithMemos(ctx, e.states.Memos(obj.GetUID()))
		ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("uid", obj.GetUID()))
		c := &cycle{before: obj, content: content, cause: cause.Cause{Reason: reasonEvent}, view: &Call{
			Object: obj, OldKnown: true, Reason: reasonEvent, Event: sight.Type, ConditionOptions: e.conditionOptions(),
		}}
		for _, id := range e.Spies.IDs() {
			handler, _ := e.Spies.Get(id)
			if ok, why := e.passes(ctx, c, id, handler, match.Input{Object: content}); !ok {
				log.FromContext(ctx).V(4).Info("Handler not concerned", "handler", id, "why", why)
				continue
			}
			e.callSpy(ctx, id, handler, c, sight.Type)
		}
	}
}

func (e *Engine) callSpy(ctx context.Context, id string, h Handler, c *cycle, event string) {
	policy := h.Policy
	policy.Retries = new(1) // the next state has another call
	execution.Invoke(ctx, execution.Invocation{
		Kind: e.Name, ID: id, Reason: reasonEvent, Policy: policy, Record: progress.Record{Started: now()}, QuietSuccess: true,
		Func: func(ctx context.Context) error {
			return h.Do(ctx, &Call{
				ID: id, Object: c.before.DeepCopyObject().(client.Object), OldKnown: true, Field: h.present(c), Reason: reasonEvent, Event: event,
				Attempt: progress.Attempt{Started: now()}, Notify: e.notifierFor(c.before), ConditionOptions: e.conditionOptions(),
			})
		},
	})
}

// present is the value of the handler's own field, for those who know no other one than that.
func (h Handler) present(c *cycle) (field [2]any) {
	if h.Field != nil {
		field[1], _ = diff.Lookup(c.content, h.Field.Path...)
		field[0] = field[1]
	}
	return field
}
