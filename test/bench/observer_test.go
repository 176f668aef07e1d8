package bench

import (
	"context"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

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

// observe returns an observer for the objects of a namespace. The events begin with the existing objects.
func (b *bench) observe(k kind, namespace string) *observer {
	b.t.Helper()
	ctx, stop := context.WithCancel(b.t.Context())
	o := &observer{make(chan event, 1<<16), stop} // the buffer must not block the informer
	options := cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{namespace: {}}}
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
		case e := <-o.events:
			if done(e) {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// await sends requests and reads events until done returns true for one of them. It returns the time from the first
// request to the last event.
func (b *bench) await(o *observer, send func(context.Context) error, done func(event) bool) time.Duration {
	b.t.Helper()
	ctx, cancel := context.WithCancelCause(b.t.Context())
	defer cancel(nil)
	began, sent := time.Now(), make(chan error, 1)
	go func() {
		err := send(ctx)
		if err != nil {
			cancel(err)
		}
		sent <- err
	}()
	var last time.Time
	b.must(o.until(ctx, func(e event) bool {
		last = e.at
		return done(e)
	}))
	b.must(<-sent)
	return last.Sub(began)
}

// awaitAll sends a request for each object, unless send is nil. It returns the time from the first request until the
// condition was true for an event of each object.
func (b *bench) awaitAll(o *observer, objects []v1.Object, send request, condition func(event) bool) time.Duration {
	b.t.Helper()
	pending := map[string]bool{}
	for _, obj := range objects {
		pending[obj.GetName()] = true
	}
	sendAll := func(ctx context.Context) error {
		if send == nil {
			return nil
		}
		return b.sendAll(ctx, objects, send)
	}
	return b.await(o, sendAll, func(e event) bool {
		if condition(e) {
			delete(pending, e.obj.GetName())
		}
		return len(pending) == 0
	})
}

// isDeleted accepts the deletion of an object.
func isDeleted(e event) bool { return e.deleted }

// handledAt returns a condition: the object has the given spec.size, and the operator of the side has handled it.
func (s side) handledAt(size int) func(event) bool {
	return func(e event) bool {
		spec, _ := e.obj.Content()
		return spec.Size == size && s.handled(e.obj)
	}
}
