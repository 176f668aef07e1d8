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

// event is a change of an object, as received by the informer.
type event struct {
	obj     v1.Object
	deleted bool
	at      time.Time
}

// observer receives the events of the objects of an operator from an informer in the benchmark process.
type observer struct {
	events chan event
	stop   context.CancelFunc
}

// observe returns an observer for the objects of a namespace, or for one object if name is not empty. The events begin
// with the existing objects.
func (b *bench) observe(k kind, namespace, name string) *observer {
	b.t.Helper()
	ctx, stop := context.WithCancel(b.t.Context())
	o := &observer{make(chan event, 1<<16), stop} // the buffer must not block the informer
	options := cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{namespace: {}}}
	if name != "" {
		options.DefaultFieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name)
	}
	c, err := cache.New(b.cp.Config, options)
	b.must(err)
	informer, err := c.GetInformer(ctx, k.empty())
	b.must(err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { o.record(obj, false) },
		UpdateFunc: func(_, obj any) { o.record(obj, false) },
		DeleteFunc: func(obj any) { o.record(obj, true) },
	})
	b.must(err)
	go func() { _ = c.Start(ctx) }() // also starts the informer
	if !c.WaitForCacheSync(ctx) {
		b.t.Fatal("the cache of the observer did not sync")
	}
	return o
}

func (o *observer) record(obj any, deleted bool) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	o.events <- event{obj.(v1.Object), deleted, time.Now()}
}

// until reads events until done returns true for one of them. It returns an error after waitTimeout.
func (o *observer) until(ctx context.Context, done func(event) bool) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	for {
		select {
		case s := <-o.events:
			if done(s) {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// each waits until the condition was true for an event of each object. It returns the time of the last such event.
func (o *observer) each(ctx context.Context, objects []v1.Object, condition func(event) bool) (last time.Time, err error) {
	pending := map[string]bool{}
	for _, obj := range objects {
		pending[obj.GetName()] = true
	}
	err = o.until(ctx, func(s event) bool {
		if condition(s) {
			delete(pending, s.obj.GetName())
		}
		last = s.at
		return len(pending) == 0
	})
	return last, err
}

// requestAndAwait calls do for all objects. It returns the time from the first request until the condition was true for
// an event of each object.
func (b *bench) requestAndAwait(o *observer, objects []v1.Object, do func(context.Context, client.Object) error, condition func(event) bool) time.Duration {
	b.t.Helper()
	ctx, cancel := context.WithCancelCause(b.t.Context())
	defer cancel(nil)
	began, requested := time.Now(), make(chan error, 1)
	go func() {
		err := b.requestAll(ctx, objects, do)
		if err != nil {
			cancel(err)
		}
		requested <- err
	}()
	last, err := o.each(ctx, objects, condition)
	b.must(err)
	b.must(<-requested)
	return last.Sub(began)
}

// isSeen accepts every event.
func isSeen(event) bool { return true }

// isDeleted accepts the deletion of an object.
func isDeleted(e event) bool { return e.deleted }

// handledAt returns a condition: the object has the given spec.size, and the operator of the side has handled it.
func (s side) handledAt(size int) func(event) bool {
	return func(e event) bool {
		spec, _ := e.obj.Content()
		return spec.Size == size && s.handled(e.obj)
	}
}
