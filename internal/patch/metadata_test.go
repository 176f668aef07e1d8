package patch

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// fill sets a value and its parts to values that are not zero. It ends below a depth, because types can contain themselves.
func fill(value reflect.Value, depth int) {
	if !value.CanSet() || depth == 0 {
		return
	}
	switch into := value.Addr().Interface().(type) {
	case *metav1.Time:
		*into = metav1.NewTime(time.Date(2026, 11, 25, 14, 30, 15, 987654321, time.FixedZone("CET", 3600)))
		return
	case *metav1.FieldsV1:
		*into = *metav1.NewFieldsV1(`{"f:spec":{}}`)
		return
	case *intstr.IntOrString:
		*into = intstr.FromInt32(7)
		return
	case *runtime.RawExtension:
		into.Raw = []byte(`{"size":1}`)
		return
	case *apiextensionsv1.JSON:
		into.Raw = []byte(`{"size":1}`)
		return
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString("text")
	case reflect.Int, reflect.Int32, reflect.Int64:
		value.SetInt(7)
	case reflect.Float64:
		value.SetFloat(0.5)
	case reflect.Uint8:
		value.SetUint('x')
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(value.Elem(), depth-1)
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 2, 2))
		fill(value.Index(0), depth-1)
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		key, element := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
		fill(key, depth-1)
		fill(element, depth-1)
		value.SetMapIndex(key, element)
	case reflect.Struct:
		for _, field := range value.Fields() {
			fill(field, depth-1)
		}
	default: // interfaces stay nil
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
		fill(field, 9)
		if field.IsZero() {
			t.Fatalf("%s is not filled: extend fill, and metadataContent", reflect.TypeFor[metav1.ObjectMeta]().Field(i).Name)
		}
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
