package children_test

import (
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
)

// state are annotations that a child must not receive from its owner.
var state = map[string]string{
	"kopf.zalando.org/last-handled-configuration":      `{"spec":{}}`,
	"kopf.zalando.org/provision":                       `{"started":"2026-01-01T00:00:00.000000+00:00"}`,
	"runtime.kopf.zalando.org/pinned-configuration":    `{}`,
	"product.example.com/kopf-managed":                 "yes",
	"product.example.com/last-handled-configuration":   `{"spec":{}}`,
	"product.example.com/anything":                     "x",
	"kopf-runtime.dev/history":                         `[]`,
	"kopf-runtime.dev/applied.other":                   "0123",
	"kopf-runtime.dev/set-position":                    "7",
	"kubectl.kubernetes.io/last-applied-configuration": `{}`,
}

func withState(others ...map[string]string) map[string]string {
	all := maps.Clone(state)
	for _, other := range others {
		maps.Copy(all, other)
	}
	return all
}

// A child does not receive the data of the operators from the annotations of its owner, at any depth.
func TestAdopt_CopiedAnnotations(t *testing.T) {
	users := map[string]string{"example.com/team": "a", "other.example.com/kopf": "b", "plain": "c"}
	copied := func() map[string]string { return withState(users) }
	owner := owner()
	owner.Annotations = copied()
	anyOf := func(of map[string]string) map[string]any {
		out := map[string]any{}
		for key, value := range of {
			out[key] = value
		}
		return out
	}
	for name, test := range map[string]struct {
		child client.Object
		want  client.Object
	}{
		"typed": {
			&appsv1.StatefulSet{
				ObjectMeta: metav1.ObjectMeta{Annotations: copied()},
				Spec: appsv1.StatefulSetSpec{
					Template:             corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: copied()}},
					VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Annotations: copied()}}, {}},
				},
			},
			&appsv1.StatefulSet{
				ObjectMeta: metav1.ObjectMeta{Annotations: users},
				Spec: appsv1.StatefulSetSpec{
					Template:             corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: users}},
					VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Annotations: users}}, {}},
				},
			},
		},
		"typed, deeper": {
			&batchv1.CronJob{Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: withState()}}}}}},
			&batchv1.CronJob{},
		},
		"the same map": {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: owner.Annotations}}, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: users}}},
		"unstructured": {
			newUnstructured("example.com/v1", "Cache", map[string]any{
				"metadata": map[string]any{"annotations": anyOf(copied())},
				"spec":     map[string]any{"pods": []any{map[string]any{"metadata": map[string]any{"annotations": anyOf(withState())}}, "x"}, "annotations": int64(1)},
			}),
			newUnstructured("example.com/v1", "Cache", map[string]any{
				"metadata": map[string]any{"annotations": anyOf(users)},
				"spec":     map[string]any{"pods": []any{map[string]any{"metadata": map[string]any{}}, "x"}, "annotations": int64(1)},
			}),
		},
		"values of the child": {
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: withState(map[string]string{"product.example.com/anything": "other", "kopf-runtime.dev/paused": "true"})}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"product.example.com/anything": "other", "kopf-runtime.dev/paused": "true"}}},
		},
		"an existing child with state of its own": {
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "c", Annotations: map[string]string{"product.example.com/kopf-managed": "yes", "product.example.com/last-handled-configuration": "{}"}}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "c", Annotations: map[string]string{"product.example.com/kopf-managed": "yes", "product.example.com/last-handled-configuration": "{}"}}},
		},
		"an existing child of the same kind and with the same state": {
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "c", Annotations: copied()}}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "c", Annotations: copied()}},
		},
		"an existing child with a copy": {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "c", Annotations: copied()}}, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "c", Annotations: users}}},
	} {
		t.Run(name, func(t *testing.T) {
			plain := owner.DeepCopy()
			plain.Annotations = nil
			for by, obj := range map[*corev1.ConfigMap]client.Object{owner: test.child, plain: test.want} {
				if err := children.Of(by, kinds{}, children.Labels(nil), children.Named("x")).Adopt(obj); err != nil {
					t.Fatal(err)
				}
			}
			equal(t, "child", test.child, test.want)
			equal(t, "annotations of the owner", owner.Annotations, copied())
		})
	}
}

// Without the marker of a store, annotations belong to users.
func TestAdopt_AnnotationsWithoutMarker(t *testing.T) {
	owner := owner()
	owner.Annotations = map[string]string{"product.example.com/team": "a"}
	child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: maps.Clone(owner.Annotations)}}
	if err := children.Of(owner, kinds{}).Adopt(child); err != nil {
		t.Fatal(err)
	}
	equal(t, "annotations", child.Annotations, owner.Annotations)
}

// Apply removes annotations that an earlier version has copied to the child.
func TestApply_RemovesCopiedAnnotations(t *testing.T) {
	owner := realOwner(t)
	child := func() *appsv1.Deployment {
		d := newDeployment("server")
		d.Annotations, d.Spec.Template.Annotations = withState(map[string]string{"team": "a"}), withState(map[string]string{"team": "a"})
		return d
	}
	_, err := operator(owner).Apply(t.Context(), child()) // the owner has no such annotations yet
	must(t, err)
	owner.Annotations = withState()
	results, err := operator(owner).Apply(t.Context(), child())
	must(t, err)
	live := results[0].Object.(*appsv1.Deployment)
	for key := range state {
		for where, all := range map[string]map[string]string{"child": live.Annotations, "template": live.Spec.Template.Annotations} {
			if _, ok := all[key]; ok {
				t.Errorf("the %s has the annotation %s of its owner", where, key)
			}
		}
	}
	equal(t, "annotation", live.Spec.Template.Annotations["team"], "a")
	equal(t, "writes", countWrites(func() {
		_, err := operator(owner).Apply(t.Context(), child())
		must(t, err)
	}), 0)
}
