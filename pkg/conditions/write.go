package conditions

import (
	"context"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// conflictBackoff allows 11 retries after conflicts, which take between 0.9 and 1.7 seconds in total.
var conflictBackoff = wait.Backoff{Duration: 5 * time.Millisecond, Factor: 1.5, Jitter: 1, Steps: 12, Cap: time.Second}

// Write changes conditions on the API server. It calls change with the conditions of a copy of the object, and sends one patch if they have
// changed. After a conflict, it reads the object and calls change again, so change must have no side effects.
//
// After a successful write, the object is the server's version, so other changes in memory are lost. If Write writes nothing, the object
// stays unchanged, unless it was read again after a conflict.
//
// A patch replaces the whole list of conditions, so Write patches only the version it has read. Otherwise changes by other controllers
// would be lost.
//
// If [For] fails or conditions are invalid (see [Set.Err]), Write returns the errors and writes nothing. It returns a conflict if the
// retries didn't resolve it, and a NotFound error if the object was deleted or recreated. If the object exists but has no status
// subresource, the error doesn't wrap NotFound. Other errors of the API server are returned unchanged.
func Write(ctx context.Context, c client.Client, obj client.Object, change func(*Set), opts ...Option) error {
	o := optionsOf(opts)
	if isNil(obj) {
		return fmt.Errorf("conditions: object is nil")
	}
	reader := o.reader
	if reader == nil {
		reader = c
	}
	uid := obj.GetUID()
	var conflict error
	err := wait.ExponentialBackoffWithContext(ctx, conflictBackoff, func(ctx context.Context) (bool, error) {
		if conflict != nil {
			if err := readAgain(ctx, reader, obj, uid); err != nil {
				return false, err
			}
		}
		err := o.writeOnce(ctx, c, obj, change, opts)
		if apierrors.IsConflict(err) {
			conflict = err
			return false, nil
		}
		return err == nil, err
	})
	if conflict != nil && wait.Interrupted(err) && ctx.Err() == nil {
		return conflict
	}
	return err
}

// writeOnce leaves the object unchanged unless the write succeeds, so that a retry starts with the version that was read.
func (o options) writeOnce(ctx context.Context, c client.Client, obj client.Object, change func(*Set), opts []Option) error {
	work, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("conditions: DeepCopyObject of %T does not return a client.Object", obj)
	}
	s, err := For(work, opts...)
	if err != nil {
		return err
	}
	change(s)
	if err := s.Err(); err != nil || !s.Changed() {
		return err
	}
	patch := client.MergeFromWithOptions(obj, client.MergeFromWithOptimisticLock{})
	if o.withoutSubresource {
		err = c.Patch(ctx, work, patch)
	} else {
		err = c.Status().Patch(ctx, work, patch)
	}
	switch {
	case err == nil:
		reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(work).Elem())
	case apierrors.IsNotFound(err) && !o.withoutSubresource && c.Get(ctx, client.ObjectKeyFromObject(obj), work) == nil && work.GetUID() == obj.GetUID():
		return fmt.Errorf("conditions: object exists, but its status subresource does not: add the subresource to the kind, "+
			"or use WithoutSubresource: %v", err) // don't wrap the error, because callers could ignore it as NotFound
	}
	return err
}

func readAgain(ctx context.Context, reader client.Reader, obj client.Object, uid types.UID) error {
	if err := reader.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
		return err
	}
	if obj.GetUID() == uid {
		return nil
	}
	plural, _ := meta.UnsafeGuessKindToResource(obj.GetObjectKind().GroupVersionKind()) // the error message needs the plural name
	return apierrors.NewNotFound(plural.GroupResource(), obj.GetName())
}
