package bench

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/kopf-runtime/kopf-runtime/test/bench/api/v1"
)

// A sight is an object from the informer.
type sight struct {
	obj  v1.Object
	gone bool
	at   time.Time
}

// An observer watches the results of an operator with its own informer.
type observer struct {
	events chan sight
	stop   context.CancelFunc
}

// observe starts with the existing objects. If a name is given, it observes this object only.
func (b *bench) observe(k kind, namespace, name string) *observer {
	b.t.Helper()
	ctx, stop := context.WithCancel(b.t.Context())
	o := &observer{make(chan sight, 1<<16), stop} // enough room if the reader is late
	options := cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{namespace: {}}}
	if name != "" {
		options.DefaultFieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name)
	}
	c, err := cache.New(b.cp.Config, options)
	b.ok(err)
	informer, err := c.GetInformer(ctx, k.empty())
	b.ok(err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { o.see(obj, false) },
		UpdateFunc: func(_, obj any) { o.see(obj, false) },
		DeleteFunc: func(obj any) { o.see(obj, true) },
	})
	b.ok(err)
	go func() { _ = c.Start(ctx) }() // starts the informer
	if !c.WaitForCacheSync(ctx) {
		b.t.Fatal("the informer of the benchmark does not start")
	}
	return o
}

func (o *observer) see(what any, gone bool) {
	if lost, ok := what.(toolscache.DeletedFinalStateUnknown); ok {
		what = lost.Obj
	}
	o.events <- sight{what.(v1.Object), gone, time.Now()}
}

// until waits until a condition on the events is met.
func (o *observer) until(ctx context.Context, enough func(sight) bool) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	for {
		select {
		case s := <-o.events:
			if enough(s) {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// each waits until all objects have had some state, and returns the time of the last one.
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

// storm sends requests for all objects, and returns the time until all have had some state.
func (b *bench) storm(o *observer, objects []v1.Object, do func(context.Context, client.Object) error, in func(sight) bool) time.Duration {
	b.t.Helper()
	ctx, cancel := context.WithCancelCause(b.t.Context())
	defer cancel(nil)
	began, flooded := time.Now(), make(chan error, 1)
	go func() {
		err := b.requestAll(ctx, objects, do)
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

// handledAt reports whether an object has some size and is handled.
func (s side) handledAt(size int) func(sight) bool {
	return func(seen sight) bool {
		spec, _ := seen.obj.Content()
		return spec.Size == size && s.handled(seen.obj)
	}
}
