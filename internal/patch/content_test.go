package patch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nested has an inline field, so its top-level fields cannot be compared one by one.
type nested struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Shared            `json:",inline"`
}

type Shared struct {
	Count int `json:"count,omitempty"`
}

func (n *nested) DeepCopyObject() runtime.Object {
	out := *n
	n.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func newPod() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "one", Labels: map[string]string{"app": "shop"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}},
		},
		Spec:   corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{Name: "app"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// changesOfObjects are changes of an object by a handler.
var changesOfObjects = []struct {
	name   string
	object client.Object
	change func(client.Object)
}{
	{"nothing", newPod(), func(client.Object) {}},
	{"a status", newPod(), func(obj client.Object) { obj.(*corev1.Pod).Status.Phase = corev1.PodRunning }},
	{"a status becomes empty", newPod(), func(obj client.Object) { obj.(*corev1.Pod).Status = corev1.PodStatus{} }},
	{"a label", newPod(), func(obj client.Object) { obj.GetLabels()["app"] = "market" }},
	{"all labels are removed", newPod(), func(obj client.Object) { obj.SetLabels(nil) }},
	{"several fields", newPod(), func(obj client.Object) { pod := obj.(*corev1.Pod); pod.Spec.NodeName, pod.Status.Phase = "b", "" }},
	{"a map of values", &corev1.ConfigMap{Data: map[string]string{"a": "1"}}, func(obj client.Object) { obj.(*corev1.ConfigMap).Data["b"] = "2" }},
	{"a map becomes absent", &corev1.ConfigMap{Data: map[string]string{"a": "1"}}, func(obj client.Object) { obj.(*corev1.ConfigMap).Data = nil }},
	{"an inline field", &nested{Shared: Shared{1}}, func(obj client.Object) { obj.(*nested).Count = 2 }},
	{"nothing in a type with an inline field", &nested{Shared: Shared{1}}, func(client.Object) {}},
	{
		"an unstructured object",
		&unstructured.Unstructured{Object: m{"metadata": m{"name": "one"}, "spec": m{"size": int64(1)}}},
		func(obj client.Object) { obj.(*unstructured.Unstructured).Object["spec"].(m)["size"] = 2 }, // an int, not an int64
	},
	{"nothing in an unstructured object", &unstructured.Unstructured{Object: m{"metadata": m{"name": "one"}}}, func(client.Object) {}},
}

func TestConverted_ContentOf_EqualsTheWholeConversion(t *testing.T) {
	for _, tc := range changesOfObjects {
		t.Run(tc.name, func(t *testing.T) {
			known := converted(t, tc.object)
			obj := tc.object.DeepCopyObject().(client.Object)
			tc.change(obj)
			want, err := JSONTypedContent(obj)
			if err != nil {
				t.Fatal(err)
			}
			got, err := known.JSONTypedContentOf(obj)
			if d := cmp.Diff(want, got); d != "" || err != nil {
				t.Errorf("JSONTypedContentOf: (-want +got), error %v:\n%s", err, d)
			}
			if want, err = Content(obj); err != nil {
				t.Fatal(err)
			}
			got, err = known.ContentOf(obj)
			if d := cmp.Diff(want, got); d != "" || err != nil {
				t.Errorf("ContentOf: (-want +got), error %v:\n%s", err, d)
			}
			if d := cmp.Diff(converted(t, tc.object), known); d != "" {
				t.Errorf("the known object has changed: (-want +got):\n%s", d)
			}
		})
	}
}

func TestConverted_Decode_EqualsTheWholeDecoding(t *testing.T) {
	for _, tc := range changesOfObjects {
		t.Run(tc.name, func(t *testing.T) {
			known := converted(t, tc.object)
			want := tc.object.DeepCopyObject().(client.Object)
			tc.change(want)
			content, err := JSONTypedContent(want)
			if err != nil {
				t.Fatal(err)
			}
			changed := Diff(known.Content, content)
			if _, isMetaChanged := changed["metadata"]; isMetaChanged {
				want.SetManagedFields(nil) // the JSON form of a Go type has none
			}
			if u, ok := want.(*unstructured.Unstructured); ok {
				u.Object = content
			}
			got := want.DeepCopyObject().(client.Object)
			empty(got)
			if err := known.Decode(changed.Apply(known.Content), changed, got); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if d := cmp.Diff(converted(t, tc.object), known); d != "" {
				t.Errorf("the known object has changed: (-want +got):\n%s", d)
			}
		})
	}
}

func TestConverted_Decode_FailsForAValueOfAnotherType(t *testing.T) {
	known := converted(t, newPod())
	changed := MergePatch{"spec": m{"nodeName": int64(1)}}
	if err := known.Decode(changed.Apply(known.Content), changed, &corev1.Pod{}); err == nil {
		t.Error("got no error, want one for a number in spec.nodeName")
	}
}

func converted(t *testing.T, obj client.Object) Converted {
	t.Helper()
	content, err := Content(obj)
	if err != nil {
		t.Fatal(err)
	}
	return Converted{obj, content}
}

func empty(obj client.Object) {
	switch obj := obj.(type) {
	case *corev1.Pod:
		*obj = corev1.Pod{}
	case *corev1.ConfigMap:
		*obj = corev1.ConfigMap{}
	case *nested:
		*obj = nested{}
	case *unstructured.Unstructured:
		obj.Object = nil
	}
}
