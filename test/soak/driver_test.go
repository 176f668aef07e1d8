package soak

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// handledWithin limits the time until a cause is handled, despite faults.
const handledWithin = 3 * time.Minute

// editsPerObject is the number of edits of each object between its creation and its deletion.
const editsPerObject = 3

// driver creates, edits and deletes objects of one group, one after the other. Before each step, it waits until the
// previous change of the object is handled.
type driver struct {
	group     *group
	direct    client.Client // client without faults
	cached    client.Reader // client that reads from an informer cache
	stepDelay time.Duration // delay between two steps
}

// runLifecycles creates, edits and deletes objects until stopped.
func (d *driver) runLifecycles(ctx context.Context, stopped <-chan struct{}, worker int) {
	for n := 0; !isClosed(stopped) && ctx.Err() == nil; n++ {
		name := fmt.Sprintf("worker-%d-%d", worker, n)
		if n%3 == 0 {
			name += "-flaky"
		}
		obj, err := d.create(ctx, name)
		for size := 2; err == nil && size <= 1+editsPerObject; size++ {
			err = d.edit(ctx, obj, size)
		}
		if err == nil {
			err = d.remove(ctx, obj)
		}
		if err != nil && ctx.Err() == nil {
			d.group.ledger.violatef("%s: %v", name, err)
		}
	}
}

// runEdits edits the permanent objects, one after the other, until stopped.
func (d *driver) runEdits(ctx context.Context, stopped <-chan struct{}, objects []*v1.Widget) {
	for size := 2; ; size++ {
		for _, obj := range objects {
			if isClosed(stopped) || ctx.Err() != nil {
				return
			}
			if err := d.edit(ctx, obj, size); err != nil && ctx.Err() == nil {
				d.group.ledger.violatef("%s: %v", obj.Name, err)
			}
		}
	}
}

func (d *driver) create(ctx context.Context, name string) (*v1.Widget, error) {
	obj := &v1.Widget{ObjectMeta: metav1.ObjectMeta{Namespace: d.group.namespace, Name: name}, Spec: v1.WidgetSpec{Size: 1}}
	if err := d.direct.Create(ctx, obj); err != nil {
		return nil, err
	}
	if err := d.awaitHandled(ctx, obj, "create"); err != nil {
		return nil, err
	}
	d.group.ledger.expect(due{nameOf(obj), "second", "1"})
	d.group.ledger.expect(due{nameOf(obj), "create", "1"})
	return obj, d.pause(ctx)
}

func (d *driver) edit(ctx context.Context, obj *v1.Widget, size int) error {
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"size":%d}}`, size))
	if err := d.direct.Patch(ctx, obj, patch); err != nil {
		return err
	}
	if err := d.awaitHandled(ctx, obj, "update"); err != nil {
		return err
	}
	d.group.ledger.expect(due{nameOf(obj), "update", strconv.Itoa(size)})
	return d.pause(ctx)
}

func (d *driver) remove(ctx context.Context, obj *v1.Widget) error {
	if err := d.direct.Delete(ctx, obj); err != nil {
		return err
	}
	err := d.await(ctx, func() (bool, error) {
		err := d.cached.Get(ctx, client.ObjectKeyFromObject(obj), &v1.Widget{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("the deletion did not end within %s: %w", handledWithin, err)
	}
	d.group.ledger.expect(due{nameOf(obj), "delete", strconv.Itoa(obj.Spec.Size)})
	return nil
}

// awaitHandled waits until a handler has written its status and the cycle has ended.
func (d *driver) awaitHandled(ctx context.Context, obj *v1.Widget, handler string) error {
	phase, size := fmt.Sprintf("%s-%d", handler, obj.Spec.Size), fmt.Sprintf(`"size":%d`, obj.Spec.Size)
	baseline := progress.AnnotationBaseline("")
	err := d.await(ctx, func() (bool, error) {
		seen := &v1.Widget{}
		if err := d.cached.Get(ctx, client.ObjectKeyFromObject(obj), seen); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return seen.UID == obj.UID && seen.Status.Phase == phase && strings.Contains(string(baseline.Fetch(seen)), size), nil
	})
	if err != nil {
		return fmt.Errorf("%s for size %d was not handled within %s: %w", handler, obj.Spec.Size, handledWithin, err)
	}
	return nil
}

func (d *driver) await(ctx context.Context, done func() (bool, error)) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, handledWithin, true, func(context.Context) (bool, error) { return done() })
}

func (d *driver) pause(ctx context.Context) error {
	timer := time.NewTimer(d.stepDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return errors.New("the test has ended")
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
