package engine

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

// load reads the object; nil if there is none, or if there is nothing to do.
func (e *Engine) load(ctx context.Context, key types.NamespacedName) (*cycle, error) {
	suspensions, afterEpoch := e.suspensions(), e.epoch.isPassed(key.Namespace)
	obj, err := e.read(ctx, e.Cache, key)
	if err != nil {
		return nil, err
	}
	if obj == nil {
		e.states.ClearRelatedChanges(key) // its children go after it
		return nil, nil
	}
	c := &cycle{memory: e.states.GetOrCreate(obj.GetUID()), pauses: e.pauses.Load(), suspensions: suspensions, afterEpoch: afterEpoch}
	c.memory.Worker.PausesAtReconcile = c.pauses
	if skipsOwnEvent(c.memory, obj) {
		return nil, nil
	}
	return c, c.begin(obj)
}

// read returns nil for an object that does not exist.
func (e *Engine) read(ctx context.Context, from client.Reader, key types.NamespacedName) (client.Object, error) {
	obj := e.New()
	if err := from.Get(ctx, key, obj); err != nil {
		if err = client.IgnoreNotFound(err); err != nil {
			err = fmt.Errorf("reading %s %s: %w", e.GVK.Kind, key, rbac.Explain(err))
		}
		return nil, err
	}
	e.identify(obj)
	return obj, nil
}

// identify restores what typed clients drop: which kind it is.
func (e *Engine) identify(obj client.Object) { obj.GetObjectKind().SetGroupVersionKind(e.GVK) }

// begin puts the cycle on a state of the object.
func (c *cycle) begin(obj client.Object) error {
	if c.laid != nil && obj == c.laid {
		obj = c.bare // the overlay may be another one now
	}
	content, err := patch.Content(obj)
	if err != nil {
		return fmt.Errorf("the object has no JSON form: %w", err)
	}
	c.before, c.content = obj, content
	if err := c.applyOverlay(); err != nil {
		return fmt.Errorf("the rejected progress does not fit the type of the object: %w", err)
	}
	c.object, c.current, c.apart = c.before, c.content, false
	return nil
}
