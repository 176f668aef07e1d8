package kopf_test

import (
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
)

// B-04, FIN-04: a watch is restricted to the labels that all handlers require, and not restricted if a handler would miss events.
func TestByObject(t *testing.T) {
	tier, gold := kopf.Label("tier"), kopf.Label("tier", filter.Equal("gold"))
	for _, test := range []struct {
		name  string
		given kopf.Option
		want  string // empty: the watch is not restricted
	}{
		{"FLT-16 no filters", onCreate(), ""},
		{"FLT-02 PRESENT", onCreate(tier), "tier"},
		{"FLT-02 PRESENT in so many words", onCreate(kopf.Label("tier", filter.Present)), "tier"},
		{"FLT-02 ABSENT", onCreate(kopf.Label("tier", filter.Absent)), "!tier"},
		{"FLT-02 a value", onCreate(gold), "tier=gold"},
		{"FLT-02 an empty value", onCreate(kopf.Label("tier", filter.Equal(""))), "tier="},
		{"FLT-01 two labels", onCreate(gold, kopf.Label("team")), "team,tier=gold"},
		{"a function cannot be asked of the server", onCreate(kopf.Label("tier", filter.Match(func(any) bool { return true }))), ""},
		{"nor a combination", onCreate(kopf.Label("tier", filter.Not(filter.Equal("gold")))), ""},
		{"present, but with another value", onCreate(kopf.Label("tier", filter.Present, filter.Not(filter.Equal("gold")))), "tier"},
		{"annotations and fields cannot", onCreate(kopf.Annotation("a"), kopf.Field("spec.size")), ""},

		{"two handlers agree", onCreate(gold).OnUpdate("g", noop, gold), "tier=gold"},
		{"two handlers agree on one of two", onCreate(gold, kopf.Label("team")).OnUpdate("g", noop, gold), "tier=gold"},
		{"two handlers do not agree", onCreate(gold).OnUpdate("g", noop, tier), ""},
		{"one handler has none", onCreate(gold).OnUpdate("g", noop), ""},
		{"a handler in a view counts, too", onCreate(gold).When(func(*kopf.Request[th]) bool { return true }).OnUpdate("g", noop), ""},
		{"a view is the resource", onCreate(gold).When(func(*kopf.Request[th]) bool { return true }), "tier=gold"},
		{"handlers for fields", onField("spec.size", gold), "tier=gold"},
		{"handlers for changes", onChange(gold), "tier=gold"},
		{"level-triggered handlers", onReconcile(gold), "tier=gold"},
		{"indexes", indexBy(gold), "tier=gold"},
		{"an index that has none", func() kopf.Option {
			r := indexBy()
			r.OnCreate("g", noop, gold)
			return r
		}(), ""},

		{"FIN-04 a delete handler holds objects, and must know that they have lost the label", onDelete(gold), ""},
		{"FIN-04 also among other reasons", newThings().On("h", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonDelete}, noop, gold), ""},
		{"HND-19 an optional one does not", onDelete(gold, kopf.Optional()), "tier=gold"},
		{"DAE-04 daemons end when their object has lost the label", daemon(gold), ""},
		{"TIM-01 timers, too", timer(time.Second, gold), ""},
		{"EVT-20 spies are shown every state", onEvent(gold), ""},

		{"other options of the operator", kopf.WithFinalizer("example.com/f"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			for obj, options := range kopf.ByObject(test.given, nil) {
				if _, ok := obj.(th); !ok {
					t.Errorf("the restriction is for %T", obj)
				}
				if got += options.Label.String(); got == "" {
					t.Error("the selector is empty")
				}
			}
			if got != test.want {
				t.Errorf("selector = %q, want %q", got, test.want)
			}
		})
	}
	if got := kopf.ByObject(); got == nil || len(got) != 0 {
		t.Errorf("without resources: %v, want an empty map", got)
	}
}
