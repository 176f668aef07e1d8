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
func (e *Engine) observe(ctx context.Context, key types.NamespacedName) (*reconciliation, error) {
	suspensions, afterEpoch := e.suspensions(), e.epoch.isPassed(key.Namespace)
	obj, err := e.readObject(ctx, e.Cache, key)
	if err != nil {
		return nil, err
	}
	if obj == nil {
		e.states.ClearRelatedChanges(key) // its children go after it
		return nil, nil
	}
	r := &reconciliation{known: e.states.GetOrCreate(obj.GetUID()), pauses: e.pauses.Load(), suspensions: suspensions, afterEpoch: afterEpoch}
	r.known.Worker.PausesAtReconcile = r.pauses
	if skipsOwnEvent(r.known, obj) {
		return nil, nil
	}
	return r, r.setBase(obj)
}

// read returns nil for an object that does not exist.
func (e *Engine) readObject(ctx context.Context, from client.Reader, key types.NamespacedName) (client.Object, error) {
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
func (r *reconciliation) setBase(obj client.Object) error {
	if r.overlaidObject != nil && obj == r.overlaidObject {
		obj = r.storedObject // the overlay may be another one now
	}
	content, err := patch.Content(obj)
	if err != nil {
		return fmt.Errorf("the object has no JSON form: %w", err)
	}
	r.before, r.content = obj, content
	if err := r.applyOverlay(); err != nil {
		return fmt.Errorf("the rejected progress does not fit the type of the object: %w", err)
	}
	r.object, r.current, r.needsRebase = r.before, r.content, false
	return nil
}
