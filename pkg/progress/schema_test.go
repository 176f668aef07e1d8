package progress_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// wantMissing checks that the error names all fields. Without fields, there must be no error.
func wantMissing(t *testing.T, err error, fields []string) {
	t.Helper()
	if (err == nil) != (fields == nil) {
		t.Fatalf("error = %v, want an error about the fields %q", err, fields)
	}
	if err != nil && !strings.Contains(err.Error(), " has no field "+strings.Join(fields, ", ")+": ") {
		t.Errorf("error = %v, want an error about the fields %q", err, fields)
	}
	if err != nil && !strings.Contains(err.Error(), "or use Annotations") {
		t.Errorf("error = %v, want an error with a solution", err)
	}
}

func TestCheckType(t *testing.T) {
	records, baseline := progress.Status(""), progress.StatusBaseline("")
	for _, test := range []struct {
		name  string
		obj   client.Object
		store any
		lacks []string
	}{
		{"B-33 annotations need no field", &corev1.ConfigMap{}, progress.Annotations(""), nil},
		{"B-33 the default needs no field", &corev1.ConfigMap{}, progress.Smart(), nil},
		{"B-33 the baseline in an annotation needs no field", &corev1.ConfigMap{}, progress.AnnotationBaseline(""), nil},
		{"B-33 a custom store without FieldUser", &corev1.ConfigMap{}, basicStore{store}, nil},
		{"B-33 an unstructured object", withStatus(nil), records, nil},
		{"B-33 no status", &corev1.ConfigMap{}, records, []string{"status"}},
		{"B-33 an object with only metadata", &metav1.PartialObjectMetadata{}, records, []string{"status"}},
		{"B-33 a status without the field", &corev1.Pod{}, records, []string{"status.kopf"}},
		{"B-33 a field without records", widgetWith(plainStatus{}), records, []string{"status.kopf.progress"}},
		{"B-33 a field of another type", widgetWith(otherStatus{}), records, []string{"status.kopf.progress"}},
		{"B-33 records without some fields", widgetWith(typedStatus{}), records, []string{
			"status.kopf.progress.*.started", "status.kopf.progress.*.stopped", "status.kopf.progress.*.delayed",
			"status.kopf.progress.*.success", "status.kopf.progress.*.failure", "status.kopf.progress.*.message", "status.kopf.progress.*.subrefs",
		}},
		{"B-33 records of strings", widgetWith(struct {
			Kopf map[string]map[string]string `json:"kopf"`
		}{}), records, []string{
			"status.kopf.progress.*.started", "status.kopf.progress.*.stopped", "status.kopf.progress.*.delayed",
			"status.kopf.progress.*.purpose", "status.kopf.progress.*.retries", "status.kopf.progress.*.success",
			"status.kopf.progress.*.failure", "status.kopf.progress.*.message", "status.kopf.progress.*.subrefs",
		}},
		{"B-33 whole records", widgetWith(wholeStatus{}), records, nil},
		{"B-33 a map", widgetWith(mapStatus{}), records, nil},
		{"B-33 a raw field", widgetWith(rawStatus{}), records, nil},
		{"B-33 a field with custom JSON", widgetWith(ownStatus{}), records, nil},
		{"B-33 a status that is a map", widgetWith(map[string]any{}), records, nil},
		{"B-33 the baseline", widgetWith(typedStatus{}), baseline, []string{"status.kopf.last-handled-configuration"}},
		{"B-33 a field for the baseline", widgetWith(wholeStatus{}), baseline, nil},
		{"B-33 a custom field", widgetWith(wholeStatus{}), progress.StatusBaseline("status.mine"), []string{"status.mine"}},
		{"B-33 several stores", widgetWith(wholeStatus{}), progress.Multi(records, progress.Status("status.mine")), []string{"status.mine"}},
		{"B-33 a baseline with ignored fields", &corev1.Pod{}, progress.IgnoringFields(baseline), []string{"status.kopf"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := progress.CheckType(test.obj, test.store)
			wantMissing(t, err, test.lacks)
			if err != nil && !strings.Contains(err.Error(), fmt.Sprintf("Go type %T ", test.obj)) {
				t.Errorf("error = %v, want the name of the type", err)
			}
		})
	}
}

// The required fields are the fields that the store writes.
func TestStatus_FieldsMatchRecord(t *testing.T) {
	want := map[string]bool{}
	for name := range fullFields {
		want["status.kopf.progress.*."+name] = true
	}
	got := map[string]bool{}
	for _, field := range progress.Status("").(progress.FieldUser).Fields() {
		got[field] = true
	}
	equal(t, "B-33 PROG-07 fields", got, want)
}

const (
	recordSchema = `{properties: {started: {type: string}, stopped: {type: string}, delayed: {type: string}, purpose: {type: string},
		retries: {type: integer}, success: {type: boolean}, failure: {type: boolean}, message: {type: string},
		subrefs: {type: array, items: {type: string}}}, type: object}`
	recordsSchema = `{type: object, additionalProperties: ` + recordSchema + `}`
	open          = `{type: object, x-kubernetes-preserve-unknown-fields: true}`
)

// objectSchema returns the schema of a kind with the given status.
func objectSchema(t *testing.T, status string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	var schema apiextensionsv1.JSONSchemaProps
	text := `{type: object, properties: {spec: {type: object}, status: ` + strings.ReplaceAll(status, "\t", " ") + `}}`
	if err := yaml.UnmarshalStrict([]byte(text), &schema); err != nil {
		t.Fatal(err)
	}
	return &schema
}

func TestCheckSchema(t *testing.T) {
	object := func(properties string) string { return `{type: object, properties: {` + properties + `}}` }
	records, baseline := progress.Status(""), progress.StatusBaseline("")
	for _, test := range []struct {
		name, status string
		store        any
		lacks        []string
	}{
		{"B-33 annotations need no field", object(""), progress.Annotations(""), nil},
		{"B-33 the default needs no field", object(""), progress.Smart(), nil},
		{"B-33 an empty status", object(""), records, []string{"status.kopf"}},
		{"B-33 a status with another field", object("phase: {type: string}"), records, []string{"status.kopf"}},
		{"B-33 an empty field", object("kopf: {type: object}"), records, []string{"status.kopf.progress"}},
		{"B-33 an empty field for the records", object("kopf: " + object("progress: {type: object}")), records, []string{"status.kopf.progress.*"}},
		{"B-33 records without fields", object("kopf: " + object("progress: {type: object, additionalProperties: {type: object}}")), records, []string{
			"status.kopf.progress.*.started", "status.kopf.progress.*.stopped", "status.kopf.progress.*.delayed",
			"status.kopf.progress.*.purpose", "status.kopf.progress.*.retries", "status.kopf.progress.*.success",
			"status.kopf.progress.*.failure", "status.kopf.progress.*.message", "status.kopf.progress.*.subrefs",
		}},
		{"B-33 records without one field", object("kopf: " + object("progress: "+strings.Replace(recordsSchema, "message:", "msg:", 1))), records,
			[]string{"status.kopf.progress.*.message"}},
		{"B-33 whole records", object("kopf: " + object("progress: "+recordsSchema)), records, nil},
		{"B-33 open records", object("kopf: " + object("progress: {type: object, additionalProperties: "+open+"}")), records, nil},
		{"B-33 an open field for the records", object("kopf: " + object("progress: "+open)), records, nil},
		{"B-33 an open field for all data", object("kopf: " + open), records, nil},
		{"B-33 an open status", open, records, nil},
		{"B-33 an open status with a closed field", `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {kopf: {type: object}}}`,
			records, []string{"status.kopf.progress"}},
		{"B-33 an open status with another closed field", `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {other: {type: object}}}`,
			records, nil},
		{"B-33 additional fields of any type", object("kopf: {type: object, additionalProperties: true}"), records, []string{"status.kopf.progress.*"}},
		{"B-33 fields in allOf", `{type: object, allOf: [` + object("kopf: "+open) + `]}`, records, []string{"status.kopf"}},

		{"B-33 no field for the baseline", object("kopf: " + object("progress: "+open)), baseline, []string{"status.kopf.last-handled-configuration"}},
		{"B-33 a field for the baseline", object("kopf: " + object("last-handled-configuration: {type: string}")), baseline, nil},
		{"B-33 fields of strings", object("kopf: {type: object, additionalProperties: {type: string}}"), baseline, nil},
		{"B-33 fields of any type", object("kopf: {type: object, additionalProperties: true}"), baseline, nil},
		{"B-33 both baselines", object("mine: {type: string}"), progress.MultiBaseline(progress.StatusBaseline("status.mine"), baseline), []string{"status.kopf"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			schema := objectSchema(t, test.status)
			wantMissing(t, progress.CheckSchema(schema, test.store), test.lacks)
			equal(t, "the API server prunes the field", pruned(t, schema, test.store), test.lacks != nil)
		})
	}
	if err := progress.CheckSchema(nil, records); err != nil {
		t.Errorf("B-33 error for a kind without a schema = %v, want no error", err)
	}
}

// pruned reports whether the API server would prune a field that the store writes.
func pruned(t *testing.T, schema *apiextensionsv1.JSONSchemaProps, store any) bool {
	t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	switch s := store.(type) {
	case progress.Store:
		mustStore(t, s, obj, "fn", full)
	case progress.Baseline:
		s.Store(obj, []byte(someEssence))
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schema, &internal, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	before := obj.DeepCopy()
	pruning.Prune(obj.Object, structural, true)
	return !reflect.DeepEqual(obj, before)
}

// B-33: conditions are lists of objects.
func TestPreservedDepth(t *testing.T) {
	object := func(properties string) string { return `{type: object, properties: {` + properties + `}}` }
	for _, test := range []struct {
		name, status string
		path         string
		want         int
	}{
		{"an item of a list", object("conditions: {type: array, items: " + object("type: {type: string}") + "}"), "status.conditions.*.type", 4},
		{"a missing field of an item", object("conditions: {type: array, items: " + object("type: {type: string}") + "}"), "status.conditions.*.reason", 3},
		{"open items", object("conditions: {type: array, items: " + open + "}"), "status.conditions.*.reason", 4},
		{"a missing list", object("phase: {type: string}"), "status.conditions.*.type", 1},
		{"items in a reference", object(`conditions: {type: array, items: {allOf: [{$ref: "#/components/schemas/x"}]}}`), "status.conditions.*.type", 4},
		{"a status in a reference", `{$ref: "#/components/schemas/x"}`, "status.conditions.*.type", 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "B-33 preserved depth", progress.PreservedDepth(objectSchema(t, test.status), strings.Split(test.path, ".")...), test.want)
		})
	}
}
