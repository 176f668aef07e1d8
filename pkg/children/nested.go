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

var podTemplate = [][]string{{"spec", "template"}}

// templates maps built-in kinds to the paths of their pod and job templates.
var templates = map[schema.GroupKind][][]string{
	{Group: "apps", Kind: "DaemonSet"}:         podTemplate,
	{Group: "apps", Kind: "Deployment"}:        podTemplate,
	{Group: "apps", Kind: "ReplicaSet"}:        podTemplate,
	{Group: "apps", Kind: "StatefulSet"}:       podTemplate,
	{Group: "batch", Kind: "Job"}:              podTemplate,
	{Group: "batch", Kind: "CronJob"}:          {{"spec", "jobTemplate"}, {"spec", "jobTemplate", "spec", "template"}},
	{Group: "", Kind: "ReplicationController"}: podTemplate,
	{Group: "", Kind: "PodTemplate"}:           {{"template"}},
}

// labelNested changes the labels of a nested structure, if it exists.
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
		return // the metadata isn't a map
	}
	old, _, err := unstructured.NestedStringMap(meta, "labels")
	if err != nil && meta["labels"] != nil {
		return // the labels aren't a map of strings
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

// field returns the field with a JSON name, even from inlined embedded structs. The value is invalid if there is no such field or if the
// struct is nil.
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
