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

// The engine skips the event of the write that ends a cycle, also if the cycle has taken several reconciles.
func TestEngine_SkipsTheEventOfTheLastWrite(t *testing.T) {
	for name, failures := range map[string]int{"first attempt succeeds": 0, "second attempt succeeds": 1} {
		t.Run(name, func(t *testing.T) {
			attempts := 0
			e, reconcileOnce := settledEngine(t, map[string]invoke.Handler{"create": {
				Criteria: match.Criteria{Reasons: []string{string(cause.Create)}},
				Do: func(context.Context, *invoke.Request) error {
					if attempts++; attempts <= failures {
						return progress.Temporary(context.DeadlineExceeded, 0)
					}
					return nil
				},
			}})
			obj := reconcileOnce()
			for range failures {
				obj = reconcileOnce()
			}
			known := e.states.GetOrCreate(obj.UID)
			settled := known.Worker.Details != nil && known.Worker.Details.Settled
			if attempts != failures+1 || !settled || known.AwaitedVersion() != obj.ResourceVersion {
				t.Errorf("attempts = %d, settled = %t with version %q, want %d, true and %q",
					attempts, settled, known.AwaitedVersion(), failures+1, obj.ResourceVersion)
			}
		})
	}
}

// A filter may panic only for the state that the reconcile has written.
func TestEngine_FilterPanicsAfterTheLastWrite(t *testing.T) {
	panics := func(value any) bool {
		if value == "set" {
			panic("the filter does not know this value")
		}
		return false
	}
	e, reconcileOnce := settledEngine(t, map[string]invoke.Handler{
		"create": {
			Criteria: match.Criteria{Reasons: []string{string(cause.Create)}},
			Do: func(_ context.Context, req *invoke.Request) error {
				req.Object.SetLabels(map[string]string{"label": "set"})
				return nil
			},
		},
		"update": {
			Criteria: match.Criteria{
				Reasons: []string{string(cause.Update)},
				Filters: match.Filters{Labels: []match.KeyFilter{{Name: "label", Tests: []match.Test{panics}}}},
			},
			Do: func(context.Context, *invoke.Request) error { return nil },
		},
	})
	if obj := reconcileOnce(); obj.Labels["label"] != "set" || e.Baseline.Fetch(obj) == nil {
		t.Errorf("labels = %v, annotations = %v, want the label and a last-handled configuration", obj.Labels, obj.Annotations)
	}
}

// settledEngine returns an engine for one object, and a function that reconciles the object once and returns it as it is stored afterwards.
func settledEngine(t *testing.T, handlers map[string]invoke.Handler) (e *Engine, reconcileOnce func() *corev1.ConfigMap) {
	t.Helper()
	key := client.ObjectKey{Namespace: "ns", Name: "one"}
	fakeClient := fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "1"}}).Build()
	kind := Kind{Name: "configmaps", GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), New: func() client.Object { return &corev1.ConfigMap{} }}
	for id, h := range handlers {
		if err := kind.Handlers.Add(id, id, &h); err != nil {
			t.Fatal(err)
		}
	}
	e = New(Settings{
		Client: fakeClient, Cache: fakeClient, APIReader: fakeClient, Store: progress.Smart(), Baseline: progress.AnnotationBaseline(""),
		Finalizer: "example.com/finalizer", Lifecycle: progress.AllAtOnce, Checkpoint: time.Minute,
	}, kind)
	read := func() *corev1.ConfigMap {
		obj := &corev1.ConfigMap{}
		if err := fakeClient.Get(t.Context(), key, obj); err != nil {
			t.Fatal(err)
		}
		return obj
	}
	return e, func() *corev1.ConfigMap {
		e.states.Observe(read(), false)
		if _, err := e.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		return read()
	}
}
