package watching_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/watching"
)

var verbs = []string{"get", "list", "watch", "patch"}

func resource(gv, kind, plural string, names ...string) watching.Resource {
	parsed, err := schema.ParseGroupVersion(gv)
	if err != nil {
		panic(err)
	}
	return watching.Resource{
		GroupVersionKind: parsed.WithKind(kind), Plural: plural, Singular: strings.ToLower(kind), ShortNames: names, Verbs: verbs, Preferred: true,
	}
}

// served are the kinds of the tests.
func served() []watching.Resource {
	old := resource("example.com/v1beta1", "Database", "databases", "db")
	old.Preferred = false
	database := resource("example.com/v1", "Database", "databases", "db")
	database.Categories = []string{"all", "data"}
	volume := resource("v1", "PersistentVolume", "persistentvolumes", "pv")
	volume.Categories = []string{"data"}
	binding := resource("v1", "Binding", "bindings")
	binding.Verbs = []string{"create"}
	return []watching.Resource{
		resource("v1", "Pod", "pods", "po"), resource("metrics.k8s.io/v1", "PodMetrics", "pods"), volume, binding,
		resource("v1", "Event", "events", "ev"), resource("events.k8s.io/v1", "Event", "events", "ev"),
		database, old, resource("other.example.com/v1", "Queue", "queues"), resource("third.example.com/v1", "Queue", "queues"),
	}
}

// SEL-01, SEL-02, SEL-05, SEL-07, SEL-08, SEL-09, SEL-10, SEL-11, SEL-12, SEL-14: patterns select kinds as in kopf.
func TestSelect(t *testing.T) {
	for _, test := range []struct {
		patterns  string
		want      string
		ambiguous string
	}{
		{"pods", "Pod", ""},
		{"po", "Pod", ""},
		{"Database", "Database", ""},
		{"database", "Database", ""},
		{"db databases", "Database", ""},
		{"databases.v1beta1.example.com", "v1beta1 Database", ""},
		{"databases.v1", "Database", ""},
		{"databases.v2", "", ""},
		{"databases.other.example.com", "", ""},
		{"pods.metrics.k8s.io", "PodMetrics", ""},
		{"queues", "", `"queues" matches several kinds (queues.other.example.com, queues.third.example.com): add the group`},
		{"queues pods", "Pod", `"queues"`},
		{"queues.third.example.com", "third.example.com Queue", ""},
		{"category:data", "PersistentVolume Database", ""},
		{"category:no", "", ""},
		{"data", "", ""},
		{"*.example.com", "Database", ""},
		{"*.*.example.com", "other.example.com Queue third.example.com Queue", ""},
		{"d*", "Database", ""},
		{"events", "Event", ""},
		{"ev.events.k8s.io", "events.k8s.io Event", ""},
		{"event*", "", ""},
		{"bindings", "", ""},
		{"*", "Pod PodMetrics PersistentVolume Database other.example.com Queue third.example.com Queue", ""},
		{"pods p*", "Pod PodMetrics PersistentVolume", ""},
	} {
		t.Run(test.patterns, func(t *testing.T) {
			patterns, err := watching.ParsePatterns(strings.Fields(test.patterns)...)
			if err != nil {
				t.Fatal(err)
			}
			selected, ambiguous := watching.Select(patterns, served())
			var names []string
			for _, r := range selected {
				switch {
				case r.Version != "v1":
					names = append(names, r.Version)
				case strings.Contains(test.want, r.Group+" "+r.Kind) && r.Group != "":
					names = append(names, r.Group)
				}
				names = append(names, r.Kind)
			}
			if got := strings.Join(names, " "); got != test.want {
				t.Errorf("selected %q, want %q", got, test.want)
			}
			var texts []string
			for _, a := range ambiguous {
				texts = append(texts, a.Error())
			}
			if got := strings.Join(texts, "; "); !strings.Contains(got, test.ambiguous) || (got == "") != (test.ambiguous == "") {
				t.Errorf("ambiguous: %q, want %q", got, test.ambiguous)
			}
		})
	}
}

func TestEverything(t *testing.T) {
	var kinds []string
	for _, r := range watching.Everything(served()) {
		kinds = append(kinds, r.Kind)
	}
	if want := []string{"Pod", "PodMetrics", "PersistentVolume", "Database", "Queue", "Queue"}; !slices.Equal(kinds, want) {
		t.Errorf("kinds = %v, want %v", kinds, want)
	}
}

func TestParsePatterns_Errors(t *testing.T) {
	for pattern, want := range map[string]string{
		"":             "it has no name",
		".example.com": "it has no name",
		"pods.":        "it has no group after the dot",
		"a b":          "it contains a space or a slash",
		"apps/v1":      "it contains a space or a slash",
		"category:":    "the category has no name",
		"[.a":          "syntax error in pattern",
	} {
		if _, err := watching.ParsePatterns("pods", pattern); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "can never match") {
			t.Errorf("%q: error = %v, want %q", pattern, err, want)
		}
	}
	if _, err := watching.ParsePatterns(); err == nil {
		t.Error("no error without patterns")
	}
}
