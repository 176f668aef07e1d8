package engine

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/shards"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// An event that was on its way while the object was released does not bring its state back. Otherwise, the engine would try to release the object again, without
// success and without end, because the event of the release is not passed.
func TestShardFilter_EventDuringTheRelease(t *testing.T) {
	for name, deliver := range map[string]func(f *shardFilter, obj client.Object, q requests){
		"an update": func(f *shardFilter, obj client.Object, q requests) {
			f.Update(t.Context(), event.UpdateEvent{ObjectOld: obj, ObjectNew: obj}, q)
		},
		"a creation": func(f *shardFilter, obj client.Object, q requests) {
			f.Create(t.Context(), event.CreateEvent{Object: obj}, q)
		},
	} {
		t.Run(name, func(t *testing.T) {
			obj := newObject(nil)
			obj.Labels = map[string]string{"shard": "one", "drain": "true"}
			reader := &fixedReader{obj: obj}
			kind := Kind{Name: t.Name(), GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), New: func() client.Object { return &corev1.ConfigMap{} }}
			e := New(Settings{
				Client: reader, Cache: reader, APIReader: reader, Store: progress.Smart(), Baseline: progress.AnnotationBaseline(""),
				Shard: &shards.Shard{Label: "shard", Name: "one", Drain: "drain"},
			}, kind)
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			f := e.EventHandler().(*guardedEvents).inner.(*shardFilter)
			key, next := client.ObjectKeyFromObject(obj), f.next
			release := func() { // as a worker does it
				e.sharding.releases.Begin(key, obj.UID)
				e.sharding.releases.End(key, true, nil)
				e.forgetReleased(key, obj)
			}
			f.next = handler.Funcs{
				CreateFunc: func(ctx context.Context, ev event.CreateEvent, q requests) { release(); next.Create(ctx, ev, q) },
				UpdateFunc: func(ctx context.Context, ev event.UpdateEvent, q requests) { release(); next.Update(ctx, ev, q) },
			}
			deliver(f, obj, queue)
			if left, back, err := e.acknowledgeDrain(t.Context(), key, obj); !left || back || err != nil {
				t.Errorf("left = %t, back = %t, error = %v; want no second release", left, back, err)
			}
			f.Delete(t.Context(), event.DeleteEvent{Object: obj}, queue)
			if e.states.Observed(key) != nil || e.states.HasLeft(key) {
				t.Error("the engine knows the released object")
			}
		})
	}
}

// The indexes of an object that has returned to the shard are updated while its other events wait.
func TestReadmit_WithIndex(t *testing.T) {
	back := newObject(nil)
	back.Labels = map[string]string{"shard": "one"}
	indexed := 0
	kind := Kind{Name: t.Name(), GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), New: func() client.Object { return &corev1.ConfigMap{} }}
	index := invoke.IndexHandler{Remove: func(types.UID) {}}
	index.Do = func(context.Context, *invoke.Request) error {
		indexed++
		return nil
	}
	if err := kind.Indexes.Add("index", "index", &index); err != nil {
		t.Fatal(err)
	}
	reader := &fixedReader{obj: back}
	e := New(Settings{
		Client: reader, Cache: reader, APIReader: reader, Store: progress.Smart(), Baseline: progress.AnnotationBaseline(""),
		Shard: &shards.Shard{Label: "shard", Name: "one", Drain: "drain"},
	}, kind)
	e.EventHandler()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := e.BackgroundSource().Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(back)
	e.sharding.releases.Begin(key, back.UID)
	if left, returned := e.sharding.releases.End(key, true, back); !left || !returned {
		t.Fatalf("left = %t, returned = %t, want both", left, returned)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.readmit(t.Context(), key)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("readmit does not return")
	}
	if indexed != 1 || queue.Len() != 1 || !e.inScope(key) {
		t.Errorf("%d calls of the index handler, %d keys in the queue, in scope: %t; want 1, 1, true", indexed, queue.Len(), e.inScope(key))
	}
}
