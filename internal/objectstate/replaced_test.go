package objectstate_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// noted is a state of an object with a baseline; none if it is empty.
func noted(version, baseline string) client.Object {
	obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a", ResourceVersion: version}}
	if baseline != "" {
		obj.Annotations = map[string]string{"baseline": baseline}
	}
	return obj
}

// KEY-13: what Kubernetes copies from an object to another, and back.
func TestReplacedBaselines(t *testing.T) {
	const written, seen, approved = "written", "seen", "approved"
	type step struct{ what, version, baseline string }
	for name, test := range map[string]struct {
		steps []step
		want  string
	}{
		"none yet":               {[]step{{seen, "1", ""}, {seen, "2", "A"}}, ""},
		"the first one of ours":  {[]step{{seen, "1", ""}, {written, "2", "A"}, {approved, "", "A"}, {seen, "2", "A"}}, ""},
		"another one of ours":    {[]step{{seen, "1", "A"}, {written, "2", "B"}, {approved, "", "B"}, {seen, "2", "B"}}, ""},
		"seen before we know it": {[]step{{seen, "1", "A"}, {seen, "2", "B"}, {written, "2", "B"}, {approved, "", "B"}}, ""},
		"an old one":             {[]step{{seen, "1", "A"}, {written, "2", "B"}, {approved, "", "B"}, {seen, "2", "B"}, {seen, "3", "A"}}, "B"},
		"an old one, and then other edits": {
			[]step{{written, "2", "B"}, {seen, "2", "B"}, {approved, "", "B"}, {seen, "3", "A"}, {seen, "4", "A"}, {seen, "5", "0"}}, "B",
		},
		"an old one, before we know that ours is written": {[]step{{seen, "1", "A"}, {seen, "2", "B"}, {seen, "3", "A"}, {written, "2", "B"}, {approved, "", "B"}}, "B"},
		"an old one, which we have corrected": {
			[]step{{seen, "2", "B"}, {approved, "", "B"}, {seen, "3", "A"}, {written, "4", "B"}, {approved, "", "B"}, {seen, "4", "B"}}, "",
		},
		"gone, which is no other one": {[]step{{seen, "2", "B"}, {approved, "", "B"}, {seen, "3", ""}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			i := objectstate.New(objectstate.Wants{Baseline: func(obj client.Object) []byte {
				if text, ok := obj.GetAnnotations()["baseline"]; ok {
					return []byte(text)
				}
				return nil
			}})
			i.Observe(noted("0", ""), false)
			for _, s := range test.steps {
				switch s.what {
				case seen:
					i.Observe(noted(s.version, s.baseline), false)
				case written:
					i.Learn(noted(s.version, s.baseline))
				case approved:
					i.Approve("a", []byte(s.baseline))
				}
			}
			equal(t, "KEY-13 what was there", string(i.Replaced("a")), test.want)
			i.Forget("a")
			i.Approve("a", nil)
			equal(t, "of an object that is gone", string(i.Replaced("a")), "")
		})
	}
}
