package engine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// B-28: the garbage collector deletes children after their owner. Nothing is kept for an owner that is gone, and
// nothing is lost for one that has come back meanwhile.
func TestChildrenThatGoAfterTheirOwner(t *testing.T) {
	here := fake.NewClientBuilder().Build()
	kind := Kind{Name: "configmaps", GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), New: func() client.Object { return &corev1.ConfigMap{} }}
	if err := kind.ReconcileHandlers.Add("level", "level", invoke.Handler{}); err != nil {
		t.Fatal(err)
	}
	e := New(Settings{
		Client: here, Cache: here, APIReader: here, Store: progress.Smart(), Baseline: progress.AnnotationBaseline(""), Finalizer: "example.com/finalizer",
	}, kind)
	owner := types.NamespacedName{Namespace: "ns", Name: "owner"}
	children := e.OwnedEventHandler(func(client.Object) []types.NamespacedName { return []types.NamespacedName{owner} })
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	childGoes := func() {
		children.Delete(t.Context(), event.DeleteEvent{Object: &corev1.ConfigMap{}}, queue)
		if _, err := e.Reconcile(t.Context(), reconcile.Request{NamespacedName: owner}); err != nil {
			t.Fatal(err)
		}
	}
	childGoes()
	if e.states.TakeForeignChange(owner, &objectState{}, "") {
		t.Error("B-28: something is kept for an object that is gone")
	}
	e.states.Observe(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "owner", UID: "2", ResourceVersion: "7"}}, false)
	childGoes()
	if !e.states.TakeForeignChange(owner, &objectState{}, "7") {
		t.Error("B-28: what was seen of an object that has come back is lost")
	}
}
