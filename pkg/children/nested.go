package children

import (
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var inSpec = [][]string{{"spec", "template"}}

// templates are where pods, and jobs, are described in the kinds of Kubernetes.
var templates = map[schema.GroupKind][][]string{
	{Group: "apps", Kind: "DaemonSet"}:         inSpec,
	{Group: "apps", Kind: "Deployment"}:        inSpec,
	{Group: "apps", Kind: "ReplicaSet"}:        inSpec,
	{Group: "apps", Kind: "StatefulSet"}:       inSpec,
	{Group: "batch", Kind: "Job"}:              inSpec,
	{Group: "batch", Kind: "CronJob"}:          {{"spec", "jobTemplate"}, {"spec", "jobTemplate", "spec", "template"}},
	{Group: "", Kind: "ReplicationController"}: inSpec,
	{Group: "", Kind: "PodTemplate"}:           {{"template"}},
}

// labelNested changes the labels of a structure within an object, if it is there.
func labelNested(obj client.Object, path []string, change func(map[string]string) map[string]string) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		labelMap(u.Object, path, change)
		return
	}
	v := reflect.ValueOf(obj)
	for _, name := range slices.Concat(path, []string{"metadata"}) {
		if v = field(v, name); !v.IsValid() {
			return
		}
	}
	if v = reflect.Indirect(v); !v.IsValid() {
		return
	}
	if meta, ok := reflect.TypeAssert[*metav1.ObjectMeta](v.Addr()); ok {
		meta.Labels = change(meta.Labels)
	}
}

func labelMap(structure map[string]any, path []string, change func(map[string]string) map[string]string) {
	for _, name := range path {
		structure, _ = structure[name].(map[string]any)
	}
	if structure == nil {
		return
	}
	meta, ok := structure["metadata"].(map[string]any)
	if !ok && structure["metadata"] != nil {
		return // it is no such structure
	}
	old, _, err := unstructured.NestedStringMap(meta, "labels")
	if err != nil && meta["labels"] != nil {
		return // nor are these labels
	}
	if meta == nil {
		meta = map[string]any{}
		structure["metadata"] = meta
	}
	labels := map[string]any{}
	for key, value := range change(old) {
		labels[key] = value
	}
	meta["labels"] = labels
}

// field finds a field by its name in JSON, in embedded structs too if they are inlined. The value is invalid
// if there is none, or if it is within nothing.
func field(v reflect.Value, name string) reflect.Value {
	v = reflect.Indirect(v)
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	var inlined reflect.Value
	for i := range v.NumField() {
		f := v.Type().Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name && f.IsExported() {
			return v.Field(i)
		}
		if f.Anonymous && tag == "" && !inlined.IsValid() {
			inlined = field(v.Field(i), name)
		}
	}
	return inlined
}
