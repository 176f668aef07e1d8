package engine

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// The garbage collector deletes owned objects after their owner (B-28). The engine keeps nothing for an owner that no longer exists, and it reconciles an
// owner that was created again.
func TestEngine_ReconcilesOwnersOfDeletedObjects(t *testing.T) {
	fakeClient := fake.NewClientBuilder().Build()
	calls := 0
	kind := Kind{Name: "configmaps", GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), New: func() client.Object { return &corev1.ConfigMap{} }}
	handler := invoke.Handler{Do: func(context.Context, *invoke.Request) error {
		calls++
		return nil
	}}
	if err := kind.ReconcileHandlers.Add("apply", "apply", &handler); err != nil {
		t.Fatal(err)
	}
	e := New(Settings{
		Client: fakeClient, Cache: fakeClient, APIReader: fakeClient, Store: progress.Smart(), Baseline: progress.AnnotationBaseline(""), Finalizer: "example.com/finalizer",
	}, kind)
	owner := types.NamespacedName{Namespace: "ns", Name: "owner"}
	deleteOwned := func() {
		t.Helper()
		e.Trigger(owner)
		if _, err := e.Reconcile(t.Context(), reconcile.Request{NamespacedName: owner}); err != nil {
			t.Fatal(err)
		}
	}
	deleteOwned()
	if len(e.states.TakeForeignChanges(owner, "1", "")) > 0 || calls > 0 {
		t.Errorf("after the deletion of an owned object without an owner: dirty mark kept, or %d calls, want 0", calls)
	}
	e.states.Observe(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "owner", UID: "2", ResourceVersion: "7"}}, false)
	for want := 1; want <= 2; want++ { // the first call is for the creation
		if deleteOwned(); calls != want {
			t.Errorf("%d calls of the reconcile handler, want %d", calls, want)
		}
	}
}
