package patch

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
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
	{"a nested map", podWithSelector(), func(obj client.Object) { obj.(*corev1.Pod).Spec.NodeSelector["disk"] = "hdd" }},
	{"a nested map that may be null becomes empty", &tagged{}, func(obj client.Object) { obj.(*tagged).Spec.Tags = map[string]string{} }},
	{"a nested map becomes null", &tagged{Spec: tags{map[string]string{}}}, func(obj client.Object) { obj.(*tagged).Spec.Tags = nil }},
	{"nothing in a nested map", &tagged{Spec: tags{map[string]string{"a": "1"}}}, func(client.Object) {}},
	{"a time", &scaffolded{At: metav1.Unix(1, 0)}, func(obj client.Object) { obj.(*scaffolded).At = metav1.Unix(2, 0) }},
	{"a quantity", &scaffolded{Size: resource.MustParse("1Gi")}, func(obj client.Object) { obj.(*scaffolded).Size = resource.MustParse("2Gi") }},
	{"a value behind a pointer", &scaffolded{Optional: &Shared{1}}, func(obj client.Object) { obj.(*scaffolded).Optional.Count = 2 }},
	{"an inline field", &nested{Shared: Shared{1}}, func(obj client.Object) { obj.(*nested).Count = 2 }},
	{"nothing in a type with an inline field", &nested{Shared: Shared{1}}, func(client.Object) {}},
	{
		"an unstructured object",
		&unstructured.Unstructured{Object: m{"metadata": m{"name": "one"}, "spec": m{"size": int64(1)}}},
		func(obj client.Object) { obj.(*unstructured.Unstructured).Object["spec"].(m)["size"] = 2 }, // an int, not an int64
	},
	{"nothing in an unstructured object", &unstructured.Unstructured{Object: m{"metadata": m{"name": "one"}}}, func(client.Object) {}},
}

func podWithSelector() *corev1.Pod {
	pod := newPod()
	pod.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	return pod
}

// tagged has a map whose JSON form can be null.
type tagged struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              tags `json:"spec"`
}

type tags struct {
	Tags map[string]string `json:"tags"`
}

func (t *tagged) DeepCopyObject() runtime.Object {
	out := *t
	t.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Tags = maps.Clone(t.Spec.Tags)
	return &out
}

// pointing has metadata that copies of the object share.
type pointing struct {
	metav1.TypeMeta    `json:",inline"`
	*metav1.ObjectMeta `json:"metadata"`

	Names []string `json:"names"`
}

func (p *pointing) DeepCopyObject() runtime.Object {
	return &pointing{p.TypeMeta, p.ObjectMeta.DeepCopy(), slices.Clone(p.Names)}
}

// scaffolded has the tags of new projects of kubebuilder, and fields of different kinds.
type scaffolded struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec     Shared               `json:"spec"`
	Status   Shared               `json:"status,omitzero"`
	Optional *Shared              `json:"optional,omitempty"`
	At       metav1.Time          `json:"at,omitempty"` //nolint:modernize // many types have it
	Since    metav1.Time          `json:"since,omitzero"`
	Raw      runtime.RawExtension `json:"raw,omitempty"`  //nolint:modernize // as above
	Port     intstr.IntOrString   `json:"port,omitempty"` //nolint:modernize // as above
	Size     resource.Quantity    `json:"size,omitempty"` //nolint:modernize // as above
	Names    []string             `json:"names"`
	Text     string               `json:"text,omitempty"`
	Level    int                  `json:"level"`
}

func (s *scaffolded) DeepCopyObject() runtime.Object {
	out := *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	s.Raw.DeepCopyInto(&out.Raw)
	out.Names = slices.Clone(s.Names)
	if s.Optional != nil {
		out.Optional = new(*s.Optional)
	}
	return &out
}

// encoded defines its JSON form itself.
type encoded struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Shared `json:"spec"`
}

func (e *encoded) DeepCopyObject() runtime.Object { return new(*e) }

func (e *encoded) MarshalJSON() ([]byte, error) {
	return []byte(`{"metadata":{"name":"fixed"},"text":"own"}`), nil
}

// The JSON form must be the one of the converter of apimachinery, for all types.
func TestContent_EqualsTheConverter(t *testing.T) {
	for _, obj := range []client.Object{
		&corev1.Pod{}, &corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Service{}, &corev1.Node{}, &corev1.Event{}, &corev1.Namespace{}, &corev1.ServiceAccount{},
		&appsv1.Deployment{}, &rbacv1.ClusterRole{}, &storagev1.StorageClass{}, &coordinationv1.Lease{}, &eventsv1.Event{},
		&apiextensionsv1.CustomResourceDefinition{}, &metav1.PartialObjectMetadata{}, &nested{}, &scaffolded{}, &encoded{}, &pointing{ObjectMeta: &metav1.ObjectMeta{}},
	} {
		name := reflect.TypeOf(obj).Elem().Name()
		newFilled := func() client.Object {
			filled := obj.DeepCopyObject().(client.Object)
			fill(reflect.ValueOf(filled).Elem(), 9)
			return filled
		}
		for state, obj := range map[string]client.Object{"zero": obj, "filled": newFilled()} {
			t.Run(name+" "+state, func(t *testing.T) {
				before := obj.DeepCopyObject()
				want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(withoutManagedFields(obj.DeepCopyObject().(client.Object)))
				if err != nil {
					t.Fatal(err)
				}
				got, err := Content(obj)
				if d := cmp.Diff(want, got); d != "" || err != nil {
					t.Errorf("converter (-), Content (+), error %v:\n%s", err, d)
				}
				if d := cmp.Diff(before, obj); d != "" {
					t.Errorf("Content has changed the object:\n%s", d)
				}
				for _, known := range []client.Object{
					newFilled(), &corev1.LimitRange{}, &unstructured.Unstructured{Object: m{"metadata": m{"labels": m{"a": "b"}}}}, reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object),
				} {
					if p, ok := known.(*pointing); ok && p.ObjectMeta == nil {
						p.ObjectMeta = &metav1.ObjectMeta{}
					}
					got, err := converted(t, known).ContentOf(obj)
					if d := cmp.Diff(want, got); d != "" || err != nil {
						t.Errorf("converter (-), ContentOf (+), error %v:\n%s", err, d)
					}
				}
			})
		}
	}
}

func TestDeepCopy(t *testing.T) {
	fieldsV1 := metav1.NewFieldsV1(`{"f:spec":{}}`)
	for _, obj := range []client.Object{
		&corev1.Pod{}, &nested{}, &pointing{ObjectMeta: &metav1.ObjectMeta{}}, &unstructured.Unstructured{Object: m{"spec": m{"size": int64(1)}}},
	} {
		t.Run(fmt.Sprintf("%T", obj), func(t *testing.T) {
			obj.SetLabels(map[string]string{"app": "shop"})
			obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: fieldsV1}})
			before := obj.DeepCopyObject()
			copied := DeepCopy(obj)
			if d := cmp.Diff(before, copied.DeepCopyObject()); d != "" {
				t.Errorf("object (-), copy (+):\n%s", d)
			}
			copied.GetLabels()["app"] = "market"
			entries := copied.GetManagedFields()
			entries[0].Manager = "other"
			copied.SetManagedFields(nil)
			if d := cmp.Diff(before, obj); d != "" {
				t.Errorf("the copy shares values with the object:\n%s", d)
			}
		})
	}
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
