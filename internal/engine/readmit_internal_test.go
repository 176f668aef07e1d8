package engine

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/shards"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

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
	if err := kind.Indexes.Add("index", "index", index); err != nil {
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
