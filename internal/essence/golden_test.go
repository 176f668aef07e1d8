package essence_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// widget returns the object of the golden vectors of kopf 1.44.6.
func widget() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{
			"name": "w", "namespace": "ns", "uid": "1", "resourceVersion": "2", "generation": int64(3),
			"finalizers": []any{"kopf.zalando.org/KopfFinalizerMarker"},
			"labels":     map[string]any{"l": "v"},
			"annotations": map[string]any{
				"a": "b",
				"kubectl.kubernetes.io/last-applied-configuration": "x",
				"kopf.zalando.org/create_fn":                       "{}",
				"other-op.example.com/kopf-managed":                "yes",
				"other-op.example.com/x":                           "y",
			},
		},
		"spec":   map[string]any{"z": int64(1), "a": "ё<&>", "e": map[string]any{}},
		"status": map[string]any{"create_fn": map[string]any{"any": "result"}},
		"data":   map[string]any{"k": "v"},
	}}
}

const goldenEssence = `{"spec":{"z":1,"a":"\u0451<&>","e":{}},"data":{"k":"v"},"metadata":{"labels":{"l":"v"},"annotations":{"a":"b"}}}`

func TestGoldenEssence(t *testing.T) {
	obj := widget()
	text, err := essence.Encode(build(obj.Object, cleaners()...))
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(goldenEssence), &want); err != nil {
		t.Fatal(err)
	}
	equal(t, "ESS-10 ESS-11 Appendix B essence with keys in any order", got, want)
	equal(t, "ESS-10 Appendix B length of the text", len(text), len(goldenEssence))
	if !strings.Contains(string(text), `"\u0451<&>"`) {
		t.Errorf("ESS-10 Appendix B: %s is not escaped as kopf does", text)
	}

	baseline := progress.AnnotationBaseline("")
	baseline.Store(obj, text)
	equal(t, "ESS-10 Appendix B stored with a newline", obj.GetAnnotations()["kopf.zalando.org/last-handled-configuration"], string(text)+"\n")
}

func TestGoldenEssence_Empty(t *testing.T) {
	text, err := essence.Encode(build(map[string]any{"kind": "A", "status": map[string]any{}}, cleaners()...))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "ESS-06 Appendix B empty essence", string(text), `{}`)
}

// kopf and this library store the same essence, so a migrated object has no update.
func TestGoldenEssence_Decode(t *testing.T) {
	old, err := decode([]byte(goldenEssence+"\n"), cleaners()...)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "MIG-03 PROG-30 essence", old, build(widget().Object, cleaners()...))
}
