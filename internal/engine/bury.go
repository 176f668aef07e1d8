package engine

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/causation"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// bury takes leave of the objects of a name that do not exist any more.
func (e *Engine) bury(ctx context.Context, key types.NamespacedName) {
	for _, last := range e.memories.Exhume(key) {
		c := &cycle{memory: e.memories.Recall(last.GetUID()), gone: true}
		e.memories.Forget(last.GetUID())
		obj := last.DeepCopyObject().(client.Object)
		e.identify(obj)
		if err := c.begin(obj); err != nil {
			continue // it could not be handled either
		}
		e.detect(ctx, c)
		e.farewell(ctx, c)
	}
}

// farewell calls the optional delete handlers for an object that is being deleted without having
// waited for us: once, as well as it goes, with the last state that was seen (B-25). Deletions that
// were under way before the operator started are none that it has seen.
func (e *Engine) farewell(ctx context.Context, c *cycle) {
	ids := e.Handlers.Select(func(h Handler) bool { return h.Farewell() })
	if len(ids) == 0 || c.memory.Farewelled || !c.memory.Alive || c.gone && e.lives(ctx, c) {
		return
	}
	c.memory.Farewelled = true
	c.reason = causation.Delete
	for _, id := range ids {
		log.FromContext(ctx).V(1).Info("The object goes without waiting for us; calling an optional handler", "handler", id)
		e.invoke(ctx, c, id, progress.Record{}, nil)
	}
}

// lives checks whether an object that the cache has lost is only out of the cache's sight: it may be
// restricted to labels that the object has lost.
func (e *Engine) lives(ctx context.Context, c *cycle) bool {
	if c.facts.Deleting {
		return false
	}
	obj, err := e.read(ctx, e.Live, client.ObjectKeyFromObject(c.before))
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot tell whether the object is deleted; the optional delete handlers are not called")
		return true
	}
	return obj != nil && obj.GetUID() == c.before.GetUID()
}
