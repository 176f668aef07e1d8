package progress_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// kopf 1.44.6 computed the expected value (appendix B).
func TestIgnoringFields_Golden(t *testing.T) {
	const object = `{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": {"name": "w", "labels": {"l": "v"}, "annotations": {
			"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "x", "kopf.zalando.org/create_fn": "{}",
			"other-op.example.com/kopf-managed": "yes", "other-op.example.com/x": "y"
		}},
		"spec": {"z": 1, "a": "ё<&>", "e": {}}, "status": {"create_fn": {"any": "result"}}, "data": {"k": "v"}
	}`
	const want = `{"spec":{"z":1,"a":"\u0451<&>"},"data":{"k":"v"},"metadata":{"annotations":{"a":"b"}}}`
	for name, inner := range map[string]progress.Baseline{
		"annotation": progress.AnnotationBaseline(""), "status": progress.StatusBaseline(""),
		"both": progress.MultiBaseline(progress.AnnotationBaseline(""), progress.StatusBaseline("")),
	} {
		t.Run("ESS-09 Appendix B "+name, func(t *testing.T) {
			baseline := progress.IgnoringFields(inner, "spec.e", "metadata.labels.l")
			content := decoded(t, object)
			built := shape(baseline).Build(content)
			text, err := essence.Encode(built)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "ESS-09 length of the essence", len(text), len(want))
			equal(t, "ESS-09 essence", decoded(t, string(text)), decoded(t, want))
			equal(t, "ESS-09 content of the object", content, decoded(t, object))

			// An essence that was stored before the fields were ignored still contains them.
			old, err := essence.Encode(shape(inner).Build(content))
			if err != nil {
				t.Fatal(err)
			}
			then, err := shape(baseline).Decode(old)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "ESS-09 essence without ignored fields", then, decoded(t, want))
		})
	}
}

func TestIgnoringFields_Clear(t *testing.T) {
	const text = `{
		"spec": {"a": {"b": {"c": 1}}, "list": [{"x": 1}], "text": "x", "null": null},
		"metadata": {"labels": {"example.com/l": "v"}, "annotations": {"example.com/a": "v", "example": "v"}}
	}`
	for _, test := range []struct {
		name  string
		paths []string
		want  func(spec, meta map[string]any)
	}{
		{"ESS-09 no fields", nil, func(_, _ map[string]any) {}},
		{"ESS-09 ESS-06 a field and its empty parents", []string{"spec.a.b.c"}, func(spec, _ map[string]any) { delete(spec, "a") }},
		{"ESS-09 a missing field", []string{"spec.a.b.other", "data.x"}, func(_, _ map[string]any) {}},
		{"ESS-09 a field of a value that is not an object", []string{"spec.text.x", "spec.list.x", "spec.null.x"}, func(_, _ map[string]any) {}},
		{"ESS-09 a list", []string{"spec.list"}, func(spec, _ map[string]any) { delete(spec, "list") }},
		{"ESS-09 a null", []string{"spec.null"}, func(spec, _ map[string]any) { delete(spec, "null") }},
		{"ESS-09 ESS-06 a label with dots and its empty parents", []string{"metadata.labels.example.com/l"},
			func(_, meta map[string]any) { delete(meta, "labels") }},
		{"ESS-09 an annotation with dots", []string{"metadata.annotations.example.com/a"},
			func(_, meta map[string]any) { delete(meta["annotations"].(map[string]any), "example.com/a") }},
		{"ESS-09 all labels", []string{"metadata.labels"}, func(_, meta map[string]any) { delete(meta, "labels") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, want := decoded(t, text), decoded(t, text)
			progress.IgnoringFields(progress.AnnotationBaseline(""), test.paths...).Clear(got)
			test.want(want["spec"].(map[string]any), want["metadata"].(map[string]any))
			equal(t, "essence", got, want)
		})
	}
}

// An ignored field has no effect on the essence, even if it is the only field of its parents.
func TestIgnoringFields_RemovesEmptyParents(t *testing.T) {
	baseline := progress.IgnoringFields(progress.AnnotationBaseline(""), "spec.a.b")
	for _, text := range []string{`{}`, `{"spec":{}}`, `{"spec":{"a":{}}}`, `{"spec":{"a":{"b":1}}}`} {
		essence := decoded(t, text)
		baseline.Clear(essence)
		equal(t, "ESS-09 ESS-06 "+text, essence, map[string]any{})
	}
}

func TestIgnoringFields_DelegatesToBaseline(t *testing.T) {
	baseline := progress.IgnoringFields(progress.AnnotationBaseline(ownPrefix), "spec.a")
	obj := configMap()
	baseline.Store(obj, []byte(someEssence))
	equal(t, "ESS-10 stored baseline", obj.Annotations[ownPrefix+"/last-handled-configuration"], someEssence+"\n")
	equal(t, "ESS-10 baseline after Store", string(baseline.Fetch(obj)), someEssence)
	essence := essenceOf(ownPrefix+"/last-handled-configuration", "{}", "a", "b")
	baseline.Clear(essence)
	equal(t, "ESS-07 cleared", essence, essenceOf("a", "b"))
	equal(t, "B-33 fields", progress.IgnoringFields(progress.StatusBaseline("status.mine")).(progress.FieldUser).Fields(), []string{"status.mine"})
}

func TestIgnoringFields_Check(t *testing.T) {
	for _, test := range []struct {
		name     string
		baseline progress.Baseline
		problems []string
	}{
		{"ESS-09 fields", progress.IgnoringFields(progress.AnnotationBaseline(""), "spec", "spec.a", "metadata.labels.a.b/c"), nil},
		{"ESS-09 invalid fields", progress.IgnoringFields(nil, "", "spec.", "metadata.labels."), []string{"nil", `""`, `"spec."`, `"metadata.labels."`}},
		{"ESS-09 an error of the baseline", progress.IgnoringFields(progress.StatusBaseline("status")), []string{`"status"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.baseline.(progress.Checker).Check()
			if (err == nil) != (test.problems == nil) {
				t.Errorf("Check = %v, want an error with %q, or none without problems", err, test.problems)
			}
			for _, problem := range test.problems {
				if !strings.Contains(fmt.Sprint(err), problem) {
					t.Errorf("Check = %v, want an error about %s", err, problem)
				}
			}
		})
	}
}

func shape(baseline progress.Baseline) essence.Builder {
	return essence.Builder{Cleaners: []essence.Cleaner{baseline, progress.Smart()}}
}
