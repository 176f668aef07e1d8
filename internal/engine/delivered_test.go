package engine

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// The cache stores an object before the informer delivers it. If the engine has read its own write from the cache, an older state that is delivered later must
// not be handled.
func TestEngine_IgnoresOlderDeliveredStates(t *testing.T) {
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one", UID: "1"}}
	fakeClient := fake.NewClientBuilder().WithObjects(obj).Build()
	key := client.ObjectKeyFromObject(obj)
	kind := Kind{Name: "configmaps", GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), New: func() client.Object { return &corev1.ConfigMap{} }}
	calls := 0
	err := kind.Handlers.Add("create", "create", invoke.Handler{
		Criteria: match.Criteria{Reasons: []string{string(cause.Create)}},
		Do: func(context.Context, *invoke.Request) error {
			calls++
			return progress.Temporary(context.DeadlineExceeded, time.Hour)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	e := New(Settings{
		Client: fakeClient, Cache: fakeClient, APIReader: fakeClient, Store: progress.Smart(), Baseline: progress.AnnotationBaseline(""),
		Finalizer: "example.com/finalizer", Lifecycle: progress.AllAtOnce, Checkpoint: time.Minute, ConsistencyTimeout: time.Minute,
	}, kind)
	reconcileOnce := func() reconcile.Result {
		t.Helper()
		result, err := e.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if err := fakeClient.Get(t.Context(), key, obj); err != nil {
		t.Fatal(err)
	}
	reconcileOnce() // calls the handler
	reconcileOnce() // reads the written object from the cache
	e.states.Observe(obj, false)
	if result := reconcileOnce(); calls != 1 || result.RequeueAfter <= 0 || result.RequeueAfter > time.Minute {
		t.Errorf("%d calls, requeued after %s, want one call and a wait for the cache", calls, result.RequeueAfter)
	}
	if err := fakeClient.Get(t.Context(), key, obj); err != nil {
		t.Fatal(err)
	}
	e.states.Observe(obj, false)
	if result := reconcileOnce(); calls != 1 || result.RequeueAfter <= time.Minute {
		t.Errorf("%d calls, requeued after %s, want one call and a wait for the next attempt", calls, result.RequeueAfter)
	}
}
