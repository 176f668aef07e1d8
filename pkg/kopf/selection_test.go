package kopf_test

import (
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
)

// B-04, FIN-04: the watch selects the labels that all handlers require. It has no selector if a handler would miss
// events.
func TestByObject(t *testing.T) {
	tier, gold := kopf.Label("tier"), kopf.Label("tier", filter.Equal("gold"))
	for _, test := range []struct {
		name  string
		given kopf.Option
		want  string // expected selector; empty for no selector
	}{
		{"FLT-16 no filters", onCreate(), ""},
		{"FLT-02 PRESENT", onCreate(tier), "tier"},
		{"FLT-02 an explicit PRESENT", onCreate(kopf.Label("tier", filter.Present)), "tier"},
		{"FLT-02 ABSENT", onCreate(kopf.Label("tier", filter.Absent)), "!tier"},
		{"FLT-02 a value", onCreate(gold), "tier=gold"},
		{"FLT-02 an empty value", onCreate(kopf.Label("tier", filter.Equal(""))), "tier="},
		{"FLT-01 two labels", onCreate(gold, kopf.Label("team")), "team,tier=gold"},
		{"a function", onCreate(kopf.Label("tier", filter.Match(func(any) bool { return true }))), ""},
		{"a combination of matchers", onCreate(kopf.Label("tier", filter.Not(filter.Equal("gold")))), ""},
		{"Present and Not", onCreate(kopf.Label("tier", filter.Present, filter.Not(filter.Equal("gold")))), "tier"},
		{"annotations and fields", onCreate(kopf.Annotation("a"), kopf.Field("spec.size")), ""},

		{"two handlers with the same label", onCreate(gold).OnUpdate("g", noop, gold), "tier=gold"},
		{"two handlers with one common label", onCreate(gold, kopf.Label("team")).OnUpdate("g", noop, gold), "tier=gold"},
		{"two handlers with different labels", onCreate(gold).OnUpdate("g", noop, tier), ""},
		{"one handler without a label", onCreate(gold).OnUpdate("g", noop), ""},
		{"a handler without a label in a view", onCreate(gold).When(func(*kopf.Request[th]) bool { return true }).OnUpdate("g", noop), ""},
		{"an empty view", onCreate(gold).When(func(*kopf.Request[th]) bool { return true }), "tier=gold"},
		{"handlers for fields", onField("spec.size", gold), "tier=gold"},
		{"handlers for changes", onChange(gold), "tier=gold"},
		{"level-triggered handlers", onReconcile(gold), "tier=gold"},
		{"indexes", indexBy(gold), "tier=gold"},
		{"an index without a label", func() kopf.Option {
			r := indexBy()
			r.OnCreate("g", noop, gold)
			return r
		}(), ""},

		{"FIN-04 a delete handler must receive the loss of the label", onDelete(gold), ""},
		{"FIN-04 a handler for deletions and other reasons", newThings().On("h", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonDelete}, noop, gold), ""},
		{"HND-19 an optional delete handler", onDelete(gold, kopf.Optional()), "tier=gold"},
		{"DAE-04 a daemon must receive the loss of the label", daemon(gold), ""},
		{"TIM-01 a timer must receive the loss of the label", timer(time.Second, gold), ""},
		{"EVT-20 an event handler must receive every state", onEvent(gold), ""},

		{"other options of the operator", kopf.WithFinalizer("example.com/f"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			for obj, options := range kopf.ByObject(test.given, nil) {
				if _, ok := obj.(th); !ok {
					t.Errorf("kind of the selector = %T, want the kind of the resource", obj)
				}
				if got += options.Label.String(); got == "" {
					t.Error("got an empty selector")
				}
			}
			if got != test.want {
				t.Errorf("selector = %q, want %q", got, test.want)
			}
		})
	}
	if got := kopf.ByObject(); got == nil || len(got) != 0 {
		t.Errorf("ByObject without resources = %v, want an empty map", got)
	}
}
