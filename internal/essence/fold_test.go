package essence_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
)

func TestFold(t *testing.T) {
	labels := func(pairs ...string) map[string]any {
		all := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			all[pairs[i]] = pairs[i+1]
		}
		return map[string]any{"metadata": map[string]any{"labels": all}}
	}
	for _, test := range []struct {
		name           string
		before, change map[string]any
		want           map[string]any
	}{
		{
			name:   "B-13 a field is changed",
			before: map[string]any{"spec": map[string]any{"a": "x", "b": "y"}},
			change: map[string]any{"spec": map[string]any{"a": "z"}},
			want:   map[string]any{"spec": map[string]any{"a": "z", "b": "y"}},
		},
		{
			name:   "B-13 a field is added, deep down",
			before: map[string]any{"data": map[string]any{}},
			change: map[string]any{"spec": map[string]any{"a": map[string]any{"b": int64(1), "c": nil}}},
			want:   map[string]any{"data": map[string]any{}, "spec": map[string]any{"a": map[string]any{"b": int64(1)}}},
		},
		{
			name:   "B-13 a field is removed",
			before: map[string]any{"spec": map[string]any{"a": "x", "b": "y"}},
			change: map[string]any{"spec": map[string]any{"a": nil, "none": nil}},
			want:   map[string]any{"spec": map[string]any{"b": "y"}},
		},
		{
			name:   "B-13 a stanza is removed",
			before: map[string]any{"spec": map[string]any{"a": "x"}, "data": map[string]any{}},
			change: map[string]any{"spec": nil},
			want:   map[string]any{"data": map[string]any{}},
		},
		{
			name:   "B-13 lists are replaced",
			before: map[string]any{"spec": map[string]any{"l": []any{"a", "b"}}},
			change: map[string]any{"spec": map[string]any{"l": []any{"c"}}},
			want:   map[string]any{"spec": map[string]any{"l": []any{"c"}}},
		},
		{
			name:   "B-13 a value becomes an object",
			before: map[string]any{"spec": "x"},
			change: map[string]any{"spec": map[string]any{"a": "b"}},
			want:   map[string]any{"spec": map[string]any{"a": "b"}},
		},
		{
			name:   "B-13 an object becomes a value",
			before: map[string]any{"spec": map[string]any{"a": "b"}},
			change: map[string]any{"spec": "x"},
			want:   map[string]any{"spec": "x"},
		},
		{name: "B-13 a label is added to none", before: map[string]any{}, change: labels("l", "v"), want: labels("l", "v")},
		{
			name:   "B-13 ESS-06 the last label is removed",
			before: labels("l", "v"),
			change: map[string]any{"metadata": map[string]any{"labels": map[string]any{"l": nil}}},
			want:   map[string]any{},
		},
		{
			name:   "B-13 ESS-02 what does not count is not folded in",
			before: labels("l", "v"),
			change: map[string]any{
				"apiVersion": "v2", "kind": "B", "status": map[string]any{"phase": "up"},
				"metadata": map[string]any{
					"finalizers":  []any{"f"},
					"annotations": map[string]any{"kopf.zalando.org/x": "y", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
				},
			},
			want: labels("l", "v"),
		},
		{
			name:   "B-13 ESS-03 an annotation that counts",
			before: labels("l", "v"),
			change: annotated("a", "b", "kopf.zalando.org/x", "y"),
			want:   map[string]any{"metadata": map[string]any{"labels": map[string]any{"l": "v"}, "annotations": map[string]any{"a": "b"}}},
		},
		{name: "B-13 nothing is changed", before: labels("l", "v"), change: nil, want: labels("l", "v")},
		{name: "B-13 nothing was there", before: nil, change: map[string]any{"a": "b"}, want: map[string]any{"a": "b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			before, change := runtime.DeepCopyJSON(test.before), runtime.DeepCopyJSON(test.change)
			equal(t, "essence", essence.Fold(test.before, test.change, cleaners()...), test.want)
			equal(t, "the first argument", test.before, before)
			equal(t, "the second argument", test.change, change)
		})
	}
}

// Folding what a handler changes gives what will be seen when it was written.
func TestFoldIsWhatWillBeSeen(t *testing.T) {
	obj := widget()
	then := essence.Build(obj.Object, cleaners()...)
	folded := essence.Fold(then, map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"l": nil, "m": "w"}, "annotations": map[string]any{"a": "c"}},
		"spec":     map[string]any{"z": int64(2), "e": nil},
		"status":   map[string]any{"phase": "up"},
	}, cleaners()...)

	obj.SetLabels(map[string]string{"m": "w"})
	annotations := obj.GetAnnotations()
	annotations["a"] = "c"
	obj.SetAnnotations(annotations)
	spec := obj.Object["spec"].(map[string]any)
	spec["z"] = int64(2)
	delete(spec, "e")
	obj.Object["status"] = map[string]any{"phase": "up"}
	equal(t, "B-13 essence", folded, essence.Build(obj.Object, cleaners()...))
}
