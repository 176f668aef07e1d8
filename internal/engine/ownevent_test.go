package engine_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// The response to the write that ends a cycle may contain changes of other clients. The event of the write must then be handled.
func TestEngine_HandlesChangesInTheResponseOfTheLastWrite(t *testing.T) {
	type request = kopf.Request[*corev1.ConfigMap]
	for name, test := range map[string]struct {
		change func(context.Context, client.Client, *corev1.ConfigMap) error
		want   []string
	}{
		"deletion": {
			func(ctx context.Context, c client.Client, obj *corev1.ConfigMap) error { return c.Delete(ctx, obj) },
			[]string{"create", "delete"},
		},
		"edit": {
			func(ctx context.Context, c client.Client, obj *corev1.ConfigMap) error {
				return c.Patch(ctx, obj, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"color":"blue"}}`)))
			},
			[]string{"create", "update"},
		},
		"lost finalizer": {
			func(ctx context.Context, c client.Client, obj *corev1.ConfigMap) error {
				return c.Patch(ctx, obj, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
			},
			[]string{"create"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}}
				cluster := kopftest.Memory(t, kopftest.Objects(obj))
				var called []string
				record := func(_ context.Context, req *request) error {
					called = append(called, string(req.Reason))
					return nil
				}
				operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).
					OnCreate("create", func(ctx context.Context, req *request) error {
						// Do not use req.Client: the engine attributes its writes to the handler.
						if err := test.change(ctx, cluster.Client, req.Object.DeepCopy()); err != nil {
							return err
						}
						return record(ctx, req)
					}).
					OnUpdate("update", record).
					OnDelete("delete", record))
				operator.RunUntilQuiet(t)
				if !slices.Equal(called, test.want) {
					t.Errorf("called %v, want %v", called, test.want)
				}
				err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
				if name == "deletion" {
					if err == nil {
						t.Error("the object still exists")
					}
				} else if err != nil || !slices.Contains(obj.Finalizers, kopf.DefaultFinalizer) {
					t.Errorf("finalizers %v, want the operator's; %v", obj.Finalizers, err)
				}
			})
		})
	}
}
