package bench

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/kopf-runtime/kopf-runtime/test/bench/api/v1"
)

// A sight is an object as the watch shows it.
type sight struct {
	obj  v1.Object
	gone bool
	at   time.Time
}

// An observer sees by a watch of its own what an operator does, whichever it is.
type observer struct{ events watch.Interface }

// observe begins with the objects that are there already.
func (b *bench) observe(k kind, namespace string, opts ...client.ListOption) *observer {
	b.t.Helper()
	events, err := b.k8s.Watch(b.t.Context(), k.list(), append(opts, client.InNamespace(namespace))...)
	b.ok(err)
	b.t.Cleanup(events.Stop)
	return &observer{events}
}

// until looks on until enough was seen.
func (o *observer) until(ctx context.Context, enough func(sight) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		select {
		case event, open := <-o.events.ResultChan():
			obj, ok := event.Object.(v1.Object)
			if !open || !ok {
				return errors.New("the watch of the benchmark has ended")
			}
			if enough(sight{obj, event.Type == watch.Deleted, time.Now()}) {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// each looks on until all objects were seen in some state, and returns when the last one was.
func (o *observer) each(ctx context.Context, objects []v1.Object, in func(sight) bool) (last time.Time, err error) {
	left := map[string]bool{}
	for _, obj := range objects {
		left[obj.GetName()] = true
	}
	err = o.until(ctx, func(s sight) bool {
		if in(s) {
			delete(left, s.obj.GetName())
		}
		last = s.at
		return len(left) == 0
	})
	return last, err
}

// storm makes requests for all objects, and returns how long it took until all were seen in some state.
func (b *bench) storm(o *observer, objects []v1.Object, do func(context.Context, client.Object) error, in func(sight) bool) time.Duration {
	b.t.Helper()
	ctx, cancel := context.WithCancelCause(b.t.Context())
	defer cancel(nil)
	began, flooded := time.Now(), make(chan error, 1)
	go func() {
		err := b.flood(ctx, objects, do)
		if err != nil {
			cancel(err)
		}
		flooded <- err
	}()
	last, err := o.each(ctx, objects, in)
	b.ok(err)
	b.ok(<-flooded)
	return last.Sub(began)
}

func seen(sight) bool { return true }

func gone(s sight) bool { return s.gone }

// handledAt tells the objects whose spec has some size, and is handled.
func (s side) handledAt(size int) func(sight) bool {
	return func(seen sight) bool {
		spec, _ := seen.obj.Content()
		return spec.Size == size && s.handled(seen.obj)
	}
}
