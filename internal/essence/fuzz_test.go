package essence_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func FuzzEssence(f *testing.F) {
	whole, err := json.Marshal(widget().Object)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		string(whole), goldenEssence, `{}`, `null`, `[]`, `{"metadata":null,"status":null}`, `{"metadata":{"labels":[],"annotations":"x"}}`,
		`{"metadata":{"annotations":{"op.example.com/kopf-managed":null,"op.example.com/x":1,"/":"","/kopf-managed":""}}}`,
		`{"status":{"kopf":{"progress":{}}},"spec":{"kopf":{"progress":{}}}}`,
		`{"a":[1,1.0,1e3,-0.0,9007199254740993,9223372036854775808,1e300,true,null,"ё<&>\ud83d\ude00\ud800"]}`,
	} {
		f.Add([]byte(seed))
	}
	all := []essence.Cleaner{
		progress.Smart(), progress.AnnotationBaseline(""), progress.Annotations("op.example.com"), progress.AnnotationBaseline("op.example.com"),
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var content map[string]any
		if err := json.Unmarshal(text, &content); err != nil {
			return
		}
		before := runtime.DeepCopyJSON(content)
		built := build(content, all...)
		equal(t, "the argument of Build", content, before)
		equal(t, "ESS-14 the essence of an essence", build(built, all...), built)

		stored, err := essence.Encode(built)
		if err != nil {
			t.Fatalf("encoding the essence: %v", err)
		}
		for _, b := range stored {
			if b >= 0x80 {
				t.Fatalf("ESS-10: not in ASCII: %q", stored)
			}
		}
		decoded, err := decode(stored, all...)
		if err != nil {
			t.Fatalf("decoding %s: %v", stored, err)
		}
		if !diff.Equal(built, decoded) {
			t.Errorf("the essence is changed by encoding as %s:\n%s", stored, diff.Of(built, decoded))
		}
		equal(t, "the argument of Encode", build(content, all...), built)
	})
}
