package kopf_test

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// An operator that copies the annotations of its objects to their children does not copy its own annotations, with any store.
func TestUserAnnotations_OfHandledObjects(t *testing.T) {
	users := map[string]string{"team": "a", "example.com/team": "b"}
	for name, options := range map[string][]kopf.Option{
		"default":        nil,
		"another prefix": {kopf.WithProgress(progress.Annotations("state.example.com")), kopf.WithBaseline(progress.AnnotationBaseline("state.example.com"))},
		"two prefixes": {
			kopf.WithProgress(progress.Multi(progress.AnnotationsV2("state.example.com"), progress.Smart())), kopf.WithBaseline(progress.AnnotationBaselineV2("base.example.com")),
		},
		"a history": {kopf.WithProgress(progress.WithHistory(progress.Smart(), 3))},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent := newConfigMap("parent")
				parent.Annotations = maps.Clone(users)
				parent.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = "{}"
				cluster := kopftest.Memory(t, kopftest.Objects(parent))
				var copied map[string]string
				resource := kopf.For(&corev1.ConfigMap{}).
					OnUpdate("repeated", func(_ context.Context, req *kopf.Request[configMap]) error {
						if req.Attempt.Number == 0 {
							return kopf.Temporary(context.Canceled, 1)
						}
						return nil
					}, kopf.Field("data")).
					OnCreateOrUpdate("adopt", func(ctx context.Context, req *kopf.Request[configMap]) error {
						copied = kopf.UserAnnotations(req.Object)
						adopted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "adopted-" + string(req.Reason), Annotations: maps.Clone(req.Object.Annotations)}}
						if err := req.Adopt(adopted); err != nil {
							return err
						}
						if err := req.Client.Create(ctx, adopted); err != nil {
							return err
						}
						applied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "applied", Annotations: maps.Clone(req.Object.Annotations)}}
						_, err := children.Of(req.Object, req.Client, children.FieldOwner("x")).Apply(ctx, applied)
						return err
					})
				operator := cluster.Run(t, append(options, resource)...)
				operator.RunUntilQuiet(t)
				kopftest.Edit(t, cluster, newConfigMap("parent"), func(obj configMap) { obj.Data = map[string]string{"a": "b"} })
				operator.RunUntilQuiet(t)

				live := newConfigMap("parent")
				cluster.Get(t, live)
				got := map[string]map[string]string{"seen by the handler": copied, "afterwards": kopf.UserAnnotations(live)}
				for _, name := range []string{"adopted-create", "adopted-update", "applied"} {
					child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
					cluster.Get(t, child)
					delete(child.Annotations, "kopf-runtime.dev/applied.x")
					got[name] = child.Annotations
				}
				for what, got := range got {
					if diff := cmp.Diff(users, got); diff != "" {
						t.Errorf("%s (-want +got):\n%s", what, diff)
					}
				}
				if len(live.Annotations) <= len(users)+1 {
					t.Errorf("the operator has stored nothing on the object: %v", live.Annotations)
				}
			})
		})
	}
}

func TestUserAnnotations_IsACopy(t *testing.T) {
	obj := newConfigMap("one")
	if got := kopf.UserAnnotations(obj); got == nil || len(got) > 0 {
		t.Errorf("annotations of an object without any = %v, want an empty map", got)
	}
	obj.Annotations = map[string]string{"a": "b"}
	kopf.UserAnnotations(obj)["a"] = "c"
	if obj.Annotations["a"] != "b" {
		t.Error("the map is shared with the object")
	}
}
