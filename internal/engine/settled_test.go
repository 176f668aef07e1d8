package engine

import (
	"context"
	"errors"
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
			obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one", UID: "1"}}
			fakeClient := fake.NewClientBuilder().WithObjects(obj).Build()
			key := client.ObjectKeyFromObject(obj)
			kind := Kind{Name: "configmaps", GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), New: func() client.Object { return &corev1.ConfigMap{} }}
			attempts := 0
			err := kind.Handlers.Add("create", "create", invoke.Handler{
				Criteria: match.Criteria{Reasons: []string{string(cause.Create)}},
				Do: func(context.Context, *invoke.Request) error {
					if attempts++; attempts <= failures {
						return progress.Temporary(context.DeadlineExceeded, 0)
					}
					return nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			e := New(Settings{
				Client: fakeClient, Cache: fakeClient, APIReader: fakeClient, Store: progress.Smart(), Baseline: progress.AnnotationBaseline(""),
				Finalizer: "example.com/finalizer", Lifecycle: progress.AllAtOnce, Checkpoint: time.Minute,
			}, kind)
			for range failures + 1 {
				if err := fakeClient.Get(t.Context(), key, obj); err != nil {
					t.Fatal(err)
				}
				e.states.Observe(obj.DeepCopy(), false)
				if _, err := e.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
					t.Fatal(err)
				}
			}
			if err := fakeClient.Get(t.Context(), key, obj); err != nil {
				t.Fatal(err)
			}
			settled := e.states.GetOrCreate(obj.UID).Worker.SettledVersion
			if attempts != failures+1 || settled != obj.ResourceVersion {
				t.Errorf("attempts = %d, version to skip = %q, want %d and %q", attempts, settled, failures+1, obj.ResourceVersion)
			}
		})
	}
}

// A filter may panic only for the state that the reconcile has written.
func TestEngine_FilterPanicsAfterTheLastWrite(t *testing.T) {
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one", UID: "1"}}
	fakeClient := fake.NewClientBuilder().WithObjects(obj).Build()
	key := client.ObjectKeyFromObject(obj)
	kind := Kind{Name: "configmaps", GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), New: func() client.Object { return &corev1.ConfigMap{} }}
	panics := func(value any) bool {
		if value == "set" {
			panic("the filter does not know this value")
		}
		return false
	}
	err := errors.Join(
		kind.Handlers.Add("create", "create", invoke.Handler{
			Criteria: match.Criteria{Reasons: []string{string(cause.Create)}},
			Do: func(_ context.Context, req *invoke.Request) error {
				req.Object.SetLabels(map[string]string{"label": "set"})
				return nil
			},
		}),
		kind.Handlers.Add("update", "update", invoke.Handler{
			Criteria: match.Criteria{
				Reasons: []string{string(cause.Update)},
				Filters: match.Filters{Labels: []match.KeyFilter{{Name: "label", Tests: []match.Test{panics}}}},
			},
			Do: func(context.Context, *invoke.Request) error { return nil },
		}))
	if err != nil {
		t.Fatal(err)
	}
	e := New(Settings{
		Client: fakeClient, Cache: fakeClient, APIReader: fakeClient, Store: progress.Smart(), Baseline: progress.AnnotationBaseline(""),
		Finalizer: "example.com/finalizer", Lifecycle: progress.AllAtOnce, Checkpoint: time.Minute,
	}, kind)
	if err := fakeClient.Get(t.Context(), key, obj); err != nil {
		t.Fatal(err)
	}
	e.states.Observe(obj.DeepCopy(), false)
	if _, err := e.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	if err := fakeClient.Get(t.Context(), key, obj); err != nil {
		t.Fatal(err)
	}
	if obj.Labels["label"] != "set" || e.Baseline.Fetch(obj) == nil {
		t.Errorf("labels = %v, annotations = %v, want the label and a last-handled configuration", obj.Labels, obj.Annotations)
	}
}
