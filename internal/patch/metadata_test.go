package patch

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// fill sets a value and its parts to values that are not zero.
func fill(t *testing.T, value reflect.Value) {
	t.Helper()
	switch into := value.Addr().Interface().(type) {
	case *metav1.Time:
		*into = metav1.NewTime(time.Date(2026, 11, 25, 14, 30, 15, 987654321, time.FixedZone("CET", 3600)))
		return
	case *metav1.FieldsV1:
		*into = *metav1.NewFieldsV1(`{"f:spec":{}}`)
		return
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString("text")
	case reflect.Int64:
		value.SetInt(7)
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(t, value.Elem())
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 2, 2))
		fill(t, value.Index(0))
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		key, element := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
		fill(t, key)
		fill(t, element)
		value.SetMapIndex(key, element)
	case reflect.Struct:
		for _, field := range value.Fields() {
			fill(t, field)
		}
	default:
		t.Fatalf("fill does not support %s: extend it, and metadataContent", value.Type())
	}
}

// metadataSamples returns metadata with each field alone, with no field, and with all fields. A new field of apimachinery is in the samples, too.
func metadataSamples(t *testing.T) map[string]metav1.ObjectMeta {
	samples := map[string]metav1.ObjectMeta{
		"none":        {},
		"empty lists": {Labels: map[string]string{}, Annotations: map[string]string{}, Finalizers: []string{}, OwnerReferences: []metav1.OwnerReference{}},
		"zero values": {DeletionTimestamp: &metav1.Time{}, DeletionGracePeriodSeconds: new(int64)},
	}
	all := metav1.ObjectMeta{}
	for i := range reflect.TypeFor[metav1.ObjectMeta]().NumField() {
		one := metav1.ObjectMeta{}
		field := reflect.ValueOf(&one).Elem().Field(i)
		fill(t, field)
		reflect.ValueOf(&all).Elem().Field(i).Set(field)
		samples[reflect.TypeFor[metav1.ObjectMeta]().Field(i).Name] = one
	}
	samples["all"] = all
	return samples
}

func TestContent_ConvertsMetadataLikeTheConverter(t *testing.T) {
	for name, meta := range metadataSamples(t) {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: "a"}}
			before := pod.DeepCopy()
			want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(withoutManagedFields(pod))
			if err != nil {
				t.Fatal(err)
			}
			got, err := Content(pod)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("converter (-) and Content (+):\n%s", diff)
			}
			if diff := cmp.Diff(before, pod); diff != "" {
				t.Errorf("Content has changed the object:\n%s", diff)
			}
		})
	}
}

// Every pair of states must give the same JSON form as a conversion without the other state.
func TestConverted_ContentOf_SharesOnlyEqualMetadata(t *testing.T) {
	samples := metadataSamples(t)
	other := samples["all"]
	other.Labels, other.Annotations = map[string]string{"text": "other"}, map[string]string{"more": "text"}
	other.Finalizers, other.OwnerReferences = []string{"text"}, []metav1.OwnerReference{{Name: "other"}}
	samples["other values"] = other
	for knownName, known := range samples {
		for name, meta := range samples {
			one, next := &corev1.Pod{ObjectMeta: known}, &corev1.Pod{ObjectMeta: meta}
			content, err := Content(one)
			if err != nil {
				t.Fatal(err)
			}
			want, err := Content(next)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Converted{one, content}.ContentOf(next)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s after %s: want (-), got (+):\n%s", name, knownName, diff)
			}
		}
	}
}

// pointing has metadata that copies of the object share.
type pointing struct {
	metav1.TypeMeta    `json:",inline"`
	*metav1.ObjectMeta `json:"metadata"`
}

func (p *pointing) DeepCopyObject() runtime.Object {
	return &pointing{TypeMeta: p.TypeMeta, ObjectMeta: p.ObjectMeta.DeepCopy()}
}

func TestContent_KeepsSharedMetadata(t *testing.T) {
	obj := &pointing{ObjectMeta: &metav1.ObjectMeta{Name: "one"}}
	content, err := Content(obj)
	if err != nil {
		t.Fatal(err)
	}
	if name, _ := content["metadata"].(map[string]any)["name"]; name != "one" || obj.Name != "one" {
		t.Errorf("name in the JSON form = %v, in the object = %q, want one", name, obj.Name)
	}
}
