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

// Conflicts are met soon again, and then at growing distances: some two seconds in all.
var patience = wait.Backoff{Duration: 5 * time.Millisecond, Factor: 1.5, Jitter: 1, Steps: 12, Cap: time.Second}

// Write changes conditions on the server, with one request if the change makes a difference, and none if not. The
// change is made to the object as it is here; if somebody else has written it meanwhile, the object is read again,
// and the change is made anew: it may be called several times, and must do nothing else.
//
// The object is as the server has it after a write. What else was changed in it is not written, and lost with the
// write. Without one it is as it was, or as it was read again.
//
// Lists of conditions are written as a whole, which is why the write insists on the version that was read: that
// way nothing of other controllers is lost, whatever the schema of the kind is.
//
// Errors: mistakes in the change (see [Set.Err]), with nothing written; a conflict, if there was no end of them; not
// found, if the object is gone or was made anew under its name; whatever else the server says.
func Write(ctx context.Context, c client.Client, obj client.Object, change func(*Set), opts ...Option) error {
	o := optionsOf(opts)
	if isNil(obj) {
		return fmt.Errorf("conditions: the object is nil")
	}
	reader := o.reader
	if reader == nil {
		reader = c
	}
	uid := obj.GetUID()
	var conflict error
	err := wait.ExponentialBackoffWithContext(ctx, patience, func(ctx context.Context) (bool, error) {
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

// writeOnce leaves the object as it is unless the write succeeds: who tries again begins with what was read.
func (o options) writeOnce(ctx context.Context, c client.Client, obj client.Object, change func(*Set), opts []Option) error {
	work, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("conditions: a copy of %T is no object", obj)
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
	if o.whole {
		err = c.Patch(ctx, work, patch)
	} else {
		err = c.Status().Patch(ctx, work, patch)
	}
	switch {
	case err == nil:
		reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(work).Elem())
	case apierrors.IsNotFound(err) && !o.whole && c.Get(ctx, client.ObjectKeyFromObject(obj), work) == nil && work.GetUID() == obj.GetUID():
		return fmt.Errorf("conditions: the object exists, but its status does not: give the kind the status subresource, "+
			"or use WithoutSubresource: %v", err) // not wrapped: whoever ignores what is not found is to see this
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
	plural, _ := meta.UnsafeGuessKindToResource(obj.GetObjectKind().GroupVersionKind()) // for the text alone
	return apierrors.NewNotFound(plural.GroupResource(), obj.GetName())
}
