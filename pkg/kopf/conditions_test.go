package kopf_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

func doNothingTo[T client.Object](context.Context, *kopf.Request[T]) error { return nil }

// declaring is a kind that can have conditions, with a handler.
func declaring(opts ...kopf.ResourceOption) kopf.Option {
	return kopf.For(&corev1.Pod{}, opts...).OnCreate("h", doNothingTo[*corev1.Pod])
}

// reporting is one with a handler that has options.
func reporting(opts ...kopf.HandlerOption) kopf.Option {
	return kopf.For(&corev1.Pod{}).OnCreate("h", doNothingTo[*corev1.Pod], opts...)
}

func watching(conditionType string, opts ...kopf.HandlerOption) resources {
	return things().OnCondition("h", conditionType, nothing, opts...)
}

// Each mistake of conditions is told in one line, as all others are. B-60, B-61, B-62, HND-20.
func TestMistakesOfConditions(t *testing.T) {
	const yes = metav1.ConditionTrue
	for _, test := range []struct {
		name  string
		given kopf.Option
		words []string // in this order
	}{
		// Declaring.
		{"none", declaring(kopf.WithConditions()), []string{"Pod: ", "WithConditions names none", `such as "Ready"`, "leave it out"}},
		{"no name", declaring(kopf.WithConditions("")), []string{"Pod: ", "WithConditions: ", "condition"}},
		{"an invalid name", declaring(kopf.WithConditions("Ready", "not a name")), []string{"Pod: ", "WithConditions: ", `"not a name"`}},
		{"a name twice", declaring(kopf.WithConditions("Ready", "Synced", "Ready")), []string{"Pod: ", "WithConditions", `"Ready" twice`, "leave out one"}},
		{"an empty root", declaring(kopf.WithRootCondition(conditions.Root{})), []string{"Pod: ", "WithRootCondition sums up nothing", "Of or Not", "leave it out"}},
		{"a root without dependents", declaring(kopf.WithRootCondition(conditions.Root{Type: "Healthy", Fresh: true})), []string{"Pod: ", "WithRootCondition sums up nothing"}},
		{"of a kind with another status", kopf.For(&thing{}, kopf.WithConditions("Ready")).OnCreate("h", nothing), []string{"Thing: ", "it is to have conditions, and cannot: "}},
		{"a root of a kind with another status", kopf.For(&thing{}, kopf.WithRootCondition(conditions.Root{Of: []string{"A"}})).OnCreate("h", nothing), []string{"Thing: ", "it is to have conditions, and cannot: "}},
		{
			"of a kind without a status", kopf.For(&corev1.ConfigMap{}, kopf.WithConditions("Ready")).OnCreate("h", doNothingTo[*corev1.ConfigMap]),
			[]string{"ConfigMap: ", "it is to have conditions, and cannot: "},
		},
		{
			"of a kind of which only the metadata is watched", kopf.For(kopf.Metadata(thingGVK), kopf.WithConditions("Ready")).OnCreate("h", doNothingTo[*metadata]),
			[]string{"Thing: ", "it is to have conditions, and cannot: "},
		},

		// Elsewhere.
		{"no place", declaring(kopf.WithConditionsIn()), []string{"Pod: ", "WithConditionsIn says nothing", "conditions.At(", "leave it out"}},
		{"a nil place", declaring(kopf.WithConditionsIn(nil)), []string{"Pod: ", "WithConditionsIn says nothing, or nil"}},
		{
			"a place that the Go type has not", declaring(kopf.WithConditionsIn(conditions.At("status.health")), kopf.WithConditions("Ready")),
			[]string{"Pod: ", "it is to have conditions, and cannot: ", "status.health", "WithConditionsIn of For"},
		},
		{
			"a place that is no path", declaring(kopf.WithConditionsIn(conditions.At("status..health")), kopf.WithConditions("Ready")),
			[]string{"Pod: ", "it is to have conditions, and cannot: ", "invalid path"},
		},

		// Reporting.
		{"a report under no name", reporting(kopf.ReportCondition("")), []string{`Pod: OnCreate("h"): ReportCondition: `}},
		{"a report under an invalid name", reporting(kopf.ReportCondition("a/b/c")), []string{`Pod: OnCreate("h"): ReportCondition: `, `"a/b/c"`}},
		{"a report of a kind without a status", created(kopf.ReportCondition("Created")), []string{"Thing: ", "it is to have conditions, and cannot: "}},
		{"a report of a daemon", kopf.For(&corev1.Pod{}).Daemon("h", doNothingTo[*corev1.Pod], kopf.ReportCondition("Created")), []string{`Pod: Daemon("h"): ReportCondition`, "a daemon", "leave it out"}},
		{"a report of a timer", kopf.For(&corev1.Pod{}).Timer("h", time.Second, doNothingTo[*corev1.Pod], kopf.ReportCondition("Created")), []string{`Pod: Timer("h"): ReportCondition`, "a timer", "leave it out"}},
		{"a report of a spy", kopf.For(&corev1.Pod{}).OnEvent("h", doNothingTo[*corev1.Pod], kopf.ReportCondition("Created")), []string{`Pod: OnEvent("h"): ReportCondition`, "leave it out"}},
		{"a report of an index", keyed(kopf.ReportCondition("Created")), []string{`Thing: IndexBy("h"): ReportCondition`, "leave it out"}},

		// Filtering.
		{"no status", created(kopf.WhenCondition("Ready", "")), []string{`Thing: OnCreate("h"): WhenCondition: "" is no status`, "True, False or Unknown"}},
		{"a status of no meaning", created(kopf.WhenCondition("Ready", "true")), []string{`OnCreate("h"): WhenCondition: "true" is no status`, "True, False or Unknown"}},
		{"a filter by no name", leveled(kopf.WhenCondition("", yes)), []string{`OnReconcile("h"): WhenCondition: `}},
		{"a filter by an invalid name", accompanied(kopf.WhenCondition("Ready?", yes)), []string{`Daemon("h"): WhenCondition: `, `"Ready?"`}},

		// Transitions.
		{"transitions of nothing", watching(""), []string{`Thing: OnCondition("h"): `}},
		{"transitions of an invalid name", watching("Ready?"), []string{`Thing: OnCondition("h"): `, `"Ready?"`}},
		{"no id", things().OnCondition("", "Ready", nothing), []string{`OnCondition(""): `, "empty", "give it a name"}},
		{"no function", things().OnCondition("h", "Ready", nil), []string{`OnCondition("h"): `, "nil", "give it a function"}},
		{"HND-20 an id twice", watching("Ready").OnCondition("h", "Synced", nothing), []string{`OnCondition("h"): `, "used twice", "another id"}},
		{"Optional of a transition", watching("Ready", kopf.Optional()), []string{`OnCondition("h"): Optional`}},
	} {
		t.Run(test.name, func(t *testing.T) { isTold(t, test.given, test.words) })
	}

	for name, given := range map[string]kopf.Option{
		"one":                     declaring(kopf.WithConditions("Ready")),
		"some, with a domain":     declaring(kopf.WithConditions("Ready", "example.com/Synced")),
		"a root of its own":       declaring(kopf.WithConditions("Ready", "Degraded"), kopf.WithRootCondition(conditions.Root{Not: []string{"Degraded"}})),
		"of an untyped kind":      kopf.For(kopf.Unstructured(thingGVK), kopf.WithConditions("Ready", "Synced")).OnCreate("h", doNothingTo[*unstructured.Unstructured]),
		"a report":                reporting(kopf.ReportCondition("Created")),
		"a report of a level":     kopf.For(&corev1.Pod{}).OnReconcile("h", doNothingTo[*corev1.Pod], kopf.ReportCondition("Synced")),
		"two handlers, one type":  kopf.For(&corev1.Pod{}).OnCreate("a", doNothingTo[*corev1.Pod], kopf.ReportCondition("A")).OnUpdate("b", doNothingTo[*corev1.Pod], kopf.ReportCondition("A")),
		"filters":                 created(kopf.WhenCondition("Ready", yes), kopf.WhenCondition("Synced", metav1.ConditionUnknown)).OnEvent("e", nothing, kopf.WhenCondition("Ready", yes)),
		"transitions":             watching("Ready", kopf.Retries(3), kopf.Label("a")).OnCondition("g", "Ready", nothing),
		"transitions of any kind": kopf.For(&corev1.ConfigMap{}).OnCondition("h", "Ready", doNothingTo[*corev1.ConfigMap]),
	} {
		t.Run("no mistake: "+name, func(t *testing.T) { isNoMistake(t, given) })
	}
}

// POST-09: a level that is none is told before the start.
func TestMistakesOfEvents(t *testing.T) {
	for _, level := range []kopf.EventLevel{-1, 3} {
		isTold(t, kopf.WithEvents(level), []string{"WithEvents(", "is no level", "EventsTransitions, EventsOff or EventsSteps"})
	}
	for _, level := range []kopf.EventLevel{kopf.EventsTransitions, kopf.EventsOff, kopf.EventsSteps} {
		if err := kopf.New(manage(), kopf.WithEvents(level), created()).CheckDeclaration(); err != nil {
			t.Error(err)
		}
	}
	isTold(t, kopf.WithKopfEvents(kopf.EventNames{Component: "not a name"}), []string{`WithKopfEvents: the Component "not a name" is refused`})
	isTold(t, kopf.WithKopfEvents(kopf.EventNames{Prefix: "Kopf_"}), []string{`WithKopfEvents: the Prefix "Kopf_" is refused`})
	isTold(t, kopf.WithKopfEvents(kopf.EventNames{Instance: strings.Repeat("x", 129)}), []string{"WithKopfEvents: the Instance", "at most 128 bytes"})
	for _, names := range []kopf.EventNames{{}, {Component: "example.com/operator", Instance: "one of two", Prefix: "mine-"}} {
		if err := kopf.New(manage(), kopf.WithKopfEvents(names), created()).CheckDeclaration(); err != nil {
			t.Error(err)
		}
	}
}

// HIER-02: the owner is the object of the request. Without a client nobody knows what kind the children are.
func TestAdoptNeedsAClient(t *testing.T) {
	req := &kopf.Request[*corev1.Pod]{Object: &corev1.Pod{}}
	child := &corev1.ConfigMap{}
	if err := req.Adopt(child); err == nil || !strings.Contains(err.Error(), "set its Client") {
		t.Errorf("without a client: %v", err)
	}
	equal(t, "the child", child, &corev1.ConfigMap{})
}
