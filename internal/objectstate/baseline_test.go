package objectstate_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// withBaseline returns a version of an object. If the baseline is empty, the object has none.
func withBaseline(version, baseline string) client.Object {
	obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a", ResourceVersion: version}}
	if baseline != "" {
		obj.Annotations = map[string]string{"baseline": baseline}
	}
	return obj
}

// KEY-13: Kubernetes copies annotations from one object to another, and back.
func TestBaselineBeforeReplacement(t *testing.T) {
	const written, observed, confirmed = "written", "observed", "confirmed"
	type step struct{ what, version, baseline string }
	for name, test := range map[string]struct {
		steps []step
		want  string
	}{
		"the first baseline":                    {[]step{{observed, "1", ""}, {observed, "2", "A"}}, ""},
		"the first baseline of this process":    {[]step{{observed, "1", ""}, {written, "2", "A"}, {confirmed, "", "A"}, {observed, "2", "A"}}, ""},
		"the second baseline of this process":   {[]step{{observed, "1", "A"}, {written, "2", "B"}, {confirmed, "", "B"}, {observed, "2", "B"}}, ""},
		"the event arrives before the response": {[]step{{observed, "1", "A"}, {observed, "2", "B"}, {written, "2", "B"}, {confirmed, "", "B"}}, ""},
		"an old baseline":                       {[]step{{observed, "1", "A"}, {written, "2", "B"}, {confirmed, "", "B"}, {observed, "2", "B"}, {observed, "3", "A"}}, "B"},
		"an old baseline before other edits": {
			[]step{{written, "2", "B"}, {observed, "2", "B"}, {confirmed, "", "B"}, {observed, "3", "A"}, {observed, "4", "A"}, {observed, "5", "0"}}, "B",
		},
		"an old baseline before the response to our write": {[]step{{observed, "1", "A"}, {observed, "2", "B"}, {observed, "3", "A"}, {written, "2", "B"}, {confirmed, "", "B"}}, "B"},
		"an old baseline, replaced by the correct one": {
			[]step{{observed, "2", "B"}, {confirmed, "", "B"}, {observed, "3", "A"}, {written, "4", "B"}, {confirmed, "", "B"}, {observed, "4", "B"}}, "",
		},
		"the baseline is removed": {[]step{{observed, "2", "B"}, {confirmed, "", "B"}, {observed, "3", ""}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := objectstate.New[bool](objectstate.Options{ReadBaseline: func(obj client.Object) []byte {
				if text, ok := obj.GetAnnotations()["baseline"]; ok {
					return []byte(text)
				}
				return nil
			}})
			s.Observe(withBaseline("0", ""), false)
			for _, step := range test.steps {
				switch step.what {
				case observed:
					s.Observe(withBaseline(step.version, step.baseline), false)
				case written:
					s.UpdateUnlessOlder(withBaseline(step.version, step.baseline))
				case confirmed:
					s.NoteStoredBaseline("a", []byte(step.baseline))
				}
			}
			equal(t, "KEY-13 replaced baseline", string(s.BaselineBeforeReplacement("a")), test.want)
			s.Forget("a")
			s.NoteStoredBaseline("a", nil)
			equal(t, "after the deletion", string(s.BaselineBeforeReplacement("a")), "")
		})
	}
}
