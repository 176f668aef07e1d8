package commit_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// What an object has of its own depends on its stamps.
func TestOverlaid_Stamps(t *testing.T) {
	const prefix = progress.DefaultPrefix
	const baseline, pin, record = prefix + "/last-handled-configuration", prefix + "/pinned-configuration", prefix + "/a"
	stamps := progress.StampsOf(progress.AnnotationBaseline(""), progress.Smart())
	const handled = `{"spec":{"size":1}}`
	digest := essence.Digest([]byte(handled))
	own, other := stamps.Key("the-uid"), stamps.Key("another-uid")
	for name, test := range map[string]struct {
		annotations map[string]string
		removed     []string // the annotations that the object is handled without
		known       string   // the digest that stands for the baseline
	}{
		"no stamp":                               {annotations: map[string]string{baseline: handled, record: "{}"}},
		"own stamp":                              {annotations: map[string]string{baseline: handled, own: digest}},
		"own stamp of an older baseline":         {annotations: map[string]string{baseline: handled, own: "older"}},
		"both stamps fit":                        {annotations: map[string]string{baseline: handled, own: digest, other: digest}},
		"another stamp that does not fit":        {annotations: map[string]string{baseline: handled, other: "older"}},
		"another stamp, other kopf has created":  {annotations: map[string]string{baseline: handled, record: "{}", other: essence.NoBaseline}},
		"another stamp that fits":                {annotations: map[string]string{baseline: handled, record: "{}", other: digest}, removed: []string{baseline, record, other}},
		"another stamp, in mid-creation":         {annotations: map[string]string{pin: "{}", record: "{}", other: essence.NoBaseline}, removed: []string{pin, record, other}},
		"another baseline, own creation":         {annotations: map[string]string{baseline: handled, record: "{}", own: essence.NoBaseline, other: digest}, removed: []string{baseline}},
		"another baseline, own one was replaced": {annotations: map[string]string{baseline: handled, own: "mine", other: digest}, known: "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			b := defaults()
			b.Stamps = stamps
			o := newOperator(t, b, object(sized(1)))
			obj := object(sized(1))
			obj.SetUID("the-uid")
			obj.SetAnnotations(test.annotations)
			content, err := o.committer.Overlaid(&o.memory, obj)
			if err != nil {
				t.Fatal(err)
			}
			if content == nil {
				content = obj.Object
			}
			got := &unstructured.Unstructured{Object: content}
			for key := range test.annotations {
				_, found := got.GetAnnotations()[key]
				equal(t, key, found, !slices.Contains(test.removed, key))
			}
			if test.known != "" {
				equal(t, "known digest", essence.BaselineDigest(o.committer.Builder.Baseline.Fetch(got)), test.known)
			}
		})
	}
}
