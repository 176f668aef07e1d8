package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// boxes is the CustomResourceDefinition of a kind with fields that older objects may not fit.
const boxes = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boxes.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {kind: Box, listKind: BoxList, plural: boxes, singular: box}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [size, color]
            properties:
              size: {type: integer, format: int32}
              color: {type: string, default: red, enum: [red, blue]}
              until: {type: string, format: date-time}
              port: {x-kubernetes-int-or-string: true}
              disks: {type: array, items: {type: object, properties: {size: {type: integer}}}}
  - {name: v2, served: false, storage: false}
`

func writeCRD(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "crd.yaml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestChecker_Object(t *testing.T) {
	check, err := newChecker(t.Context(), nil, writeCRD(t, boxes), schema.GroupVersionKind{Group: "shop.example.com", Version: "v1", Kind: "Box"})
	must(t, err)
	for spec, want := range map[string][]string{
		`{"size":1}`: nil,
		`{"size":1,"unknown":{"size":1.5},"port":"http","until":"2026-01-02T03:04:05Z"}`: nil,
		`{"size":1.5}`:                    {": Invalid value: \"\": Checked value must be of type integer with format int32 in spec.size", "spec.size: "},
		`{"size":3000000000}`:             {": Invalid value: \"\": Checked value must be of type integer with format int32 in spec.size"},
		`{"size":1,"until":1700000000.5}`: {"spec.until: "},
		`{"size":1,"until":"yesterday"}`:  {"spec.until: "},
		`{}`:                              {"spec.size: Required value"},
		`{"size":1,"color":"green"}`:      {"spec.color: Unsupported value"},
		`{"size":"1","disks":[{"size":1},{"size":"3"}]}`: {"spec.size: ", "spec.disks[1].size: "},
	} {
		obj := &unstructured.Unstructured{}
		must(t, obj.UnmarshalJSON([]byte(`{"apiVersion":"shop.example.com/v1","kind":"Box","metadata":{"namespace":"shop","name":"a"},"spec":`+spec+`}`)))
		before := obj.DeepCopy()
		got := check.object(obj)
		var problems []string
		for _, problem := range got.Problems {
			problems = append(problems, problem.Field+": "+problem.Problem)
		}
		slices.Sort(problems)
		slices.Sort(want)
		if !slices.EqualFunc(problems, want, strings.HasPrefix) {
			t.Errorf("%s: problems = %q, want %q", spec, problems, want)
		}
		if !slices.Equal(mustJSON(t, before), mustJSON(t, obj)) {
			t.Errorf("%s: the object has changed", spec)
		}
	}
}

func mustJSON(t *testing.T, obj *unstructured.Unstructured) []byte {
	t.Helper()
	data, err := obj.MarshalJSON()
	must(t, err)
	return data
}

func TestNewChecker_Refuses(t *testing.T) {
	file := writeCRD(t, boxes)
	box := schema.GroupVersionKind{Group: "shop.example.com", Version: "v1", Kind: "Box"}
	for name, test := range map[string]struct {
		file string
		kind schema.GroupVersionKind
		want string
	}{
		"a missing file":         {filepath.Join(t.TempDir(), "none"), box, "--crd: open "},
		"a file without the CRD": {file, schema.GroupVersionKind{Group: "shop.example.com", Version: "v1", Kind: "Car"}, "has no CustomResourceDefinition of Car.shop.example.com"},
		"a missing version":      {file, schema.GroupVersionKind{Group: "shop.example.com", Version: "v3", Kind: "Box"}, "has no schema for version v3"},
		"a missing schema":       {file, schema.GroupVersionKind{Group: "shop.example.com", Version: "v2", Kind: "Box"}, "has no schema for version v2"},
		"a broken file":          {writeCRD(t, "{"), box, "--crd: reading "},
	} {
		if _, err := newChecker(t.Context(), nil, test.file, test.kind); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error = %v, want %q", name, err, test.want)
		}
	}
}

// testCheck compares the objects with the schema of the cluster, and with a stricter one in a file.
func testCheck(t *testing.T, k8s client.Client) {
	small, large := sample("small", nil), sample("large", nil)
	large.Object["spec"].(map[string]any)["sizeGiB"] = int64(500)
	for _, obj := range []*unstructured.Unstructured{small, large} {
		obj.SetFinalizers(nil)
		must(t, k8s.Create(t.Context(), obj))
		t.Cleanup(func() { _ = k8s.Delete(context.Background(), obj) })
	}
	if out := mustRun(t, "objects", "check", kind); strings.Contains(out, "small") || strings.Contains(out, "large") {
		t.Errorf("the output names objects that fit the schema of the cluster:\n%s", out)
	}
	text, err := os.ReadFile("../../examples/01-minimal/config/crd/databases.yaml")
	must(t, err)
	stricter := writeCRD(t, strings.Replace(string(text), "minimum: 1", "maximum: 100", 1))
	out, err := kopf(t, "objects", "check", kind, "--crd", stricter)
	if err == nil || err.Error() != "1 of 2 objects do not fit the schema" || !strings.Contains(out, "large") || !strings.Contains(out, "spec.sizeGiB") || strings.Contains(out, "small") {
		t.Errorf("error = %v, want one of two objects; output:\n%s", err, out)
	}
	fails(t, "only objects of custom kinds can be checked", "objects", "check", "namespaces")
}
