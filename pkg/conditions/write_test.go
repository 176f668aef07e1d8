package conditions_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

func ready(s *conditions.Set) { s.True("Ready", "Up", "") }

// The first Write sends one request, and later ones send none. The kinds are typed and unstructured, with and without
// the subresource.
func TestWrite(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "x-", Namespace: "default"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: pod().Spec},
		},
	}
	deployment.Spec.Template.Spec.AutomountServiceAccountToken = nil
	create(t, deployment)
	aPod := pod()
	create(t, aPod)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}}
	create(t, node)
	for name, c := range map[string]struct {
		obj  client.Object
		opts []conditions.Option
	}{
		"subresource":                {onServer(t, "Widget"), nil},
		"without the subresource":    {onServer(t, "Gadget"), []conditions.Option{conditions.WithoutSubresource()}},
		"map":                        {onServer(t, "Widget"), []conditions.Option{conditions.AsMap()}},
		"another path":               {onServer(t, "Widget"), []conditions.Option{conditions.At("status.a.b")}},
		"adapter":                    {onServer(t, "Widget"), []conditions.Option{conditions.Using(flags)}},
		"without observedGeneration": {onServer(t, "Topic"), nil},
		"Deployment":                 {deployment, nil},
		"Pod":                        {aPod, nil},
		"Node, without a status":     {node, nil},
	} {
		t.Run(name, func(t *testing.T) {
			write := func(change func(*conditions.Set)) int {
				t.Helper()
				return countWrites(func() {
					must(t, conditions.Write(t.Context(), k8s, c.obj, change, c.opts...))
				})
			}
			fresh := func() client.Object {
				t.Helper()
				obj := c.obj.DeepCopyObject().(client.Object)
				must(t, k8s.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
				return obj
			}
			equal(t, "writes of a new condition", write(ready), 1)
			equal(t, "condition is True", conditions.Is(fresh(), "Ready", metav1.ConditionTrue, c.opts...), true)
			equal(t, "the version", c.obj.GetResourceVersion(), fresh().GetResourceVersion())
			equal(t, "writes of the same condition", write(ready), 0)
			c.obj = fresh()
			equal(t, "writes after a read", write(ready), 0)
			equal(t, "writes of all conditions of a reconciler after a read", write(func(s *conditions.Set) {
				s.Unknown("Ready", "Looking", "")
				s.Declare("Ready")
				ready(s)
			}), 0)
			equal(t, "writes of another status", write(func(s *conditions.Set) { s.False("Ready", "Down", "") }), 1)
			equal(t, "writes of removing a missing condition", write(func(s *conditions.Set) { s.Remove("Other") }), 0)
			equal(t, "writes of a removal", write(func(s *conditions.Set) { s.Remove("Ready") }), 1)
			_, exists := setOf(t, fresh(), c.opts...).Get("Ready")
			equal(t, "condition exists after Remove", exists, false)
		})
	}
}

// The schema has the limits of metav1.Condition.
func TestWrite_ServerAcceptsConditions(t *testing.T) {
	topic := onServer(t, "Topic")
	for _, reason := range []string{"", "connection refused", "404", "é", strings.Repeat("x y", 900), ":"} {
		for _, message := range []string{"", strings.Repeat("é", 40000), "broken \xff\xfe", "null \x00 and lines\n\u2028"} {
			change := func(s *conditions.Set) { s.False("Ready", reason, message) }
			must(t, conditions.Write(t.Context(), k8s, topic, change))
			must(t, k8s.Get(t.Context(), client.ObjectKeyFromObject(topic), topic))
			equal(t, "writes of the same condition", countWrites(func() { must(t, conditions.Write(t.Context(), k8s, topic, change)) }), 0)
		}
	}
	must(t, conditions.Write(t.Context(), k8s, topic, func(s *conditions.Set) { s.Declare(strings.Repeat("x", 316)) }))
}

func TestWrite_Errors(t *testing.T) {
	gadget := onServer(t, "Gadget")
	err := conditions.Write(t.Context(), k8s, gadget, ready)
	if err == nil || !strings.Contains(err.Error(), "use WithoutSubresource") || apierrors.IsNotFound(err) {
		t.Errorf("error without the subresource = %v, want advice about WithoutSubresource", err)
	}
	mistake := func(s *conditions.Set) { ready(s); s.True("not ready", "", "") }
	equal(t, "writes", countWrites(func() { err = conditions.Write(t.Context(), k8s, gadget, mistake) }), 0)
	if err == nil || !strings.Contains(err.Error(), "invalid type") {
		t.Errorf("error for an invalid condition = %v, want an error about the type", err)
	}
	if err := conditions.Write(t.Context(), k8s, &corev1.ConfigMap{}, ready); err == nil || !strings.Contains(err.Error(), "has no field status.conditions") {
		t.Errorf("error for a kind without conditions = %v, want an error about the field", err)
	}
	equal(t, "number of conditions after failures", len(setOf(t, gadget).List()), 0)
	if err := conditions.Write(t.Context(), k8s, nil, ready); err == nil {
		t.Error("Write returned no error for nil")
	}
	gone := onServer(t, "Widget")
	must(t, k8s.Delete(t.Context(), gone))
	if err := conditions.Write(t.Context(), k8s, gone, ready); !apierrors.IsNotFound(err) {
		t.Errorf("error for a deleted object = %v, want not found", err)
	}
	created := gone.DeepCopy()
	created.SetResourceVersion("")
	must(t, k8s.Create(t.Context(), created))
	if err := conditions.Write(t.Context(), k8s, gone, ready); !apierrors.IsNotFound(err) {
		t.Errorf("error for a recreated object = %v, want not found", err)
	}
	must(t, k8s.Get(t.Context(), client.ObjectKeyFromObject(created), created))
	equal(t, "number of conditions of the recreated object", len(setOf(t, created).List()), 0)
}

// After a conflict, Write reads the object again and repeats the change on the new version.
func TestWrite_Conflicts(t *testing.T) {
	widget := onServer(t, "Widget")
	stale := widget.DeepCopy()
	must(t, conditions.Write(t.Context(), k8s, widget, func(s *conditions.Set) { s.True("Theirs", "R", "") }))
	calls := 0
	must(t, conditions.Write(t.Context(), k8s, stale, func(s *conditions.Set) { calls++; ready(s) }))
	equal(t, "calls", calls, 2)
	equal(t, "condition of the other client is True", setOf(t, stale).Is("Theirs", metav1.ConditionTrue), true)
	equal(t, "own condition is True", setOf(t, stale).Is("Ready", metav1.ConditionTrue), true)

	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "widgets"}, "x", errors.New("always"))
	reads := 0
	never := interceptor.NewClient(k8s, interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return conflict
		},
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			t.Error("Write did not use the reader")
			return conflict
		},
	})
	reader := interceptor.NewClient(k8s, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, obj, opts...)
		},
	})
	err := conditions.Write(t.Context(), never, stale, func(s *conditions.Set) { s.False("Ready", "R", "") }, conditions.ReadWith(reader))
	if !apierrors.IsConflict(err) || reads == 0 {
		t.Errorf("error of permanent conflicts = %v after %d reads, want a conflict and reads", err, reads)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := conditions.Write(ctx, never, stale, func(s *conditions.Set) { s.False("Ready", "R2", "") }); !errors.Is(err, context.Canceled) {
		t.Errorf("error after the cancellation = %v, want context.Canceled", err)
	}
}
