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
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/events"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

func noopFor[T client.Object](context.Context, *kopf.Request[T]) error { return nil }

// podsWith returns a resource with conditions, a handler and the given options.
func podsWith(opts ...kopf.ResourceOption) kopf.Option {
	return kopf.For(&corev1.Pod{}, opts...).OnCreate("h", noopFor[*corev1.Pod])
}

// podHandlerWith returns a resource with conditions and one handler with the given options.
func podHandlerWith(opts ...kopf.HandlerOption) kopf.Option {
	return kopf.For(&corev1.Pod{}).OnCreate("h", noopFor[*corev1.Pod], opts...)
}

func onCondition(conditionType string, opts ...kopf.HandlerOption) *kopf.Resource[*corev1.Pod] {
	return kopf.For(&corev1.Pod{}).OnCondition("h", conditionType, noopFor[*corev1.Pod], opts...)
}

// podWhen returns a resource with conditions and an OnCreate handler with WhenCondition.
func podWhen(conditionType string, status metav1.ConditionStatus) kopf.Option {
	return podHandlerWith(kopf.WhenCondition(conditionType, status))
}

// Each test case has one error in one line. B-60, B-61, B-62, HND-20.
func TestCheckDeclaration_Conditions(t *testing.T) {
	const yes = metav1.ConditionTrue
	for _, test := range []struct {
		name  string
		given kopf.Option
		words []string // words of the error, in this order
	}{
		// WithConditions and WithRootCondition.
		{"no conditions", podsWith(kopf.WithConditions()), []string{"Pod: ", "WithConditions has no types", `such as "Ready"`, "remove the option"}},
		{"no name", podsWith(kopf.WithConditions("")), []string{"Pod: ", "WithConditions: ", "condition"}},
		{"an invalid name", podsWith(kopf.WithConditions("Ready", "not a name")), []string{"Pod: ", "WithConditions: ", `"not a name"`}},
		{"a duplicate name", podsWith(kopf.WithConditions("Ready", "Synced", "Ready")), []string{"Pod: ", "WithConditions", `"Ready" twice`, "remove one"}},
		{"an empty root", podsWith(kopf.WithRootCondition(conditions.Root{})), []string{"Pod: ", "WithRootCondition summarizes no conditions", "Of or Not", "remove the option"}},
		{"a root without dependents", podsWith(kopf.WithRootCondition(conditions.Root{Type: "Healthy", Fresh: true})), []string{"Pod: ", "WithRootCondition summarizes no conditions"}},
		{"a kind with a different status", kopf.For(&thing{}, kopf.WithConditions("Ready")).OnCreate("h", noop), []string{"Thing: ", "the conditions cannot be stored: "}},
		{"a root condition of a kind with a different status", kopf.For(&thing{}, kopf.WithRootCondition(conditions.Root{Of: []string{"A"}})).OnCreate("h", noop), []string{"Thing: ", "the conditions cannot be stored: "}},
		{
			"a kind without a status", kopf.For(&corev1.ConfigMap{}, kopf.WithConditions("Ready")).OnCreate("h", noopFor[*corev1.ConfigMap]),
			[]string{"ConfigMap: ", "the conditions cannot be stored: "},
		},
		{
			"a metadata-only kind", kopf.For(kopf.Metadata(thingGVK), kopf.WithConditions("Ready")).OnCreate("h", noopFor[*metadata]),
			[]string{"Thing: ", "the conditions cannot be stored: "},
		},

		// WithConditionsIn.
		{"WithConditionsIn without options", podsWith(kopf.WithConditionsIn()), []string{"Pod: ", "WithConditionsIn has no options", "conditions.At(", "remove it"}},
		{"WithConditionsIn with a nil option", podsWith(kopf.WithConditionsIn(nil)), []string{"Pod: ", "WithConditionsIn has no options, or a nil one"}},
		{
			"a path that is not in the Go type", podsWith(kopf.WithConditionsIn(conditions.At("status.health")), kopf.WithConditions("Ready")),
			[]string{"Pod: ", "the conditions cannot be stored: ", "status.health", "WithConditionsIn to For"},
		},
		{
			"an invalid path", podsWith(kopf.WithConditionsIn(conditions.At("status..health")), kopf.WithConditions("Ready")),
			[]string{"Pod: ", "the conditions cannot be stored: ", "invalid path"},
		},

		// ReportCondition.
		{"ReportCondition without a name", podHandlerWith(kopf.ReportCondition("")), []string{`Pod: OnCreate("h"): ReportCondition: `}},
		{"ReportCondition with an invalid name", podHandlerWith(kopf.ReportCondition("a/b/c")), []string{`Pod: OnCreate("h"): ReportCondition: `, `"a/b/c"`}},
		{"ReportCondition of a kind without a status", onCreate(kopf.ReportCondition("Created")), []string{"Thing: ", "the conditions cannot be stored: "}},
		{"ReportCondition of a daemon", kopf.For(&corev1.Pod{}).Daemon("h", daemons.Daemon{}, noopFor[*corev1.Pod], kopf.ReportCondition("Created")), []string{`Pod: Daemon("h"): ReportCondition`, "has no effect on daemons", "remove it"}},
		{"ReportCondition of a timer", kopf.For(&corev1.Pod{}).Timer("h", daemons.Timer{Interval: time.Second}, noopFor[*corev1.Pod], kopf.ReportCondition("Created")), []string{`Pod: Timer("h"): ReportCondition`, "has no effect on timers", "remove it"}},
		{"ReportCondition of an event handler", kopf.For(&corev1.Pod{}).OnEvent("h", noopFor[*corev1.Pod], kopf.ReportCondition("Created")), []string{`Pod: OnEvent("h"): ReportCondition`, "remove it"}},
		{"ReportCondition of an index", indexBy(kopf.ReportCondition("Created")), []string{`Thing: IndexBy("h"): ReportCondition`, "remove it"}},

		// WhenCondition.
		{"an empty status", podWhen("Ready", ""), []string{`Pod: OnCreate("h"): WhenCondition: invalid status ""`, "metav1.ConditionTrue, ConditionFalse or ConditionUnknown"}},
		{"an invalid status", podWhen("Ready", "true"), []string{`OnCreate("h"): WhenCondition: invalid status "true"`, "metav1.ConditionTrue, ConditionFalse or ConditionUnknown"}},
		{"WhenCondition without a name", podWhen("", yes), []string{`OnCreate("h"): WhenCondition: `}},
		{"WhenCondition with an invalid name", podWhen("Ready?", yes), []string{`OnCreate("h"): WhenCondition: `, `"Ready?"`}},

		// OnCondition.
		{"OnCondition without a name", onCondition(""), []string{`Pod: OnCondition("h"): `}},
		{"OnCondition with an invalid name", onCondition("Ready?"), []string{`Pod: OnCondition("h"): `, `"Ready?"`}},
		{"no id", kopf.For(&corev1.Pod{}).OnCondition("", "Ready", noopFor[*corev1.Pod]), []string{`OnCondition(""): `, "empty", "set one"}},
		{"a nil handler", kopf.For(&corev1.Pod{}).OnCondition("h", "Ready", nil), []string{`OnCondition("h"): `, "nil", "pass a function"}},
		{"HND-20 a duplicate id", onCondition("Ready").OnCondition("h", "Synced", noopFor[*corev1.Pod]), []string{`OnCondition("h"): `, "used twice", "rename one"}},
		{
			"OnCondition of a kind without conditions", kopf.For(&corev1.ConfigMap{}).OnCondition("h", "Ready", noopFor[*corev1.ConfigMap]),
			[]string{"ConfigMap: ", "OnCondition and WhenCondition can never match: ", "has no field status", "WithConditionsIn to For"},
		},
		{"WhenCondition of a kind without conditions", daemon(kopf.WhenCondition("Ready", yes)), []string{"Thing: ", "OnCondition and WhenCondition can never match: ", "WithConditionsIn to For"}},
		{"WhenCondition of an index", indexBy(kopf.WhenCondition("Ready", yes)), []string{"Thing: ", "OnCondition and WhenCondition can never match: "}},
		{"Optional of OnCondition", onCondition("Ready", kopf.Optional()), []string{`OnCondition("h"): Optional`}},
	} {
		t.Run(test.name, func(t *testing.T) { wantError(t, test.given, test.words) })
	}

	for name, given := range map[string]kopf.Option{
		"one":                                    podsWith(kopf.WithConditions("Ready")),
		"a condition with a domain":              podsWith(kopf.WithConditions("Ready", "example.com/Synced")),
		"a custom root condition":                podsWith(kopf.WithConditions("Ready", "Degraded"), kopf.WithRootCondition(conditions.Root{Not: []string{"Degraded"}})),
		"a kind without a Go type":               kopf.For(kopf.Unstructured(thingGVK), kopf.WithConditions("Ready", "Synced")).OnCreate("h", noopFor[*unstructured.Unstructured]),
		"a report":                               podHandlerWith(kopf.ReportCondition("Created")),
		"ReportCondition of a reconcile handler": kopf.For(&corev1.Pod{}).OnReconcile("h", noopFor[*corev1.Pod], kopf.ReportCondition("Synced")),
		"two handlers with the same condition":   kopf.For(&corev1.Pod{}).OnCreate("a", noopFor[*corev1.Pod], kopf.ReportCondition("A")).OnUpdate("b", noopFor[*corev1.Pod], kopf.ReportCondition("A")),
		"filters":                                kopf.For(&corev1.Pod{}).OnCreate("h", noopFor[*corev1.Pod], kopf.WhenCondition("Ready", yes), kopf.WhenCondition("Synced", metav1.ConditionUnknown)).OnEvent("e", noopFor[*corev1.Pod], kopf.WhenCondition("Ready", yes)),
		"transitions":                            kopf.For(&corev1.Pod{}).OnCondition("h", "Ready", noopFor[*corev1.Pod], kopf.Retries(3), kopf.Label("a")).OnCondition("g", "Ready", noopFor[*corev1.Pod]),
	} {
		t.Run("valid: "+name, func(t *testing.T) { wantValid(t, given) })
	}
}

// POST-09: invalid Event levels and names are errors.
func TestCheckDeclaration_Events(t *testing.T) {
	for _, level := range []events.Level{-1, 3} {
		wantError(t, kopf.WithEvents(events.Options{Level: level}), []string{"WithEvents has the invalid Level", "events.Transitions, events.Off or events.Steps"})
	}
	for _, level := range []events.Level{events.Transitions, events.Off, events.Steps} {
		if err := kopf.New(newManager(), kopf.WithEvents(events.Options{Level: level}), onCreate()).CheckDeclaration(); err != nil {
			t.Error(err)
		}
	}
	wantError(t, kopf.WithEvents(events.Options{KopfForm: &events.KopfForm{Component: "not a name"}}), []string{`WithEvents: Component "not a name" of KopfForm is invalid`})
	wantError(t, kopf.WithEvents(events.Options{KopfForm: &events.KopfForm{Prefix: "Kopf_"}}), []string{`WithEvents: Prefix "Kopf_" of KopfForm is invalid`})
	wantError(t, kopf.WithEvents(events.Options{KopfForm: &events.KopfForm{Instance: strings.Repeat("x", 129)}}), []string{"WithEvents: Instance", "it has 129 bytes: use at most 128"})
	for _, names := range []events.KopfForm{{}, {Component: "example.com/operator", Instance: "one of two", Prefix: "mine-"}} {
		if err := kopf.New(newManager(), kopf.WithEvents(events.Options{KopfForm: &names}), onCreate()).CheckDeclaration(); err != nil {
			t.Error(err)
		}
	}
}

// HIER-02: the owner is the object of the request. Adopt uses the client to look up the kinds of the children.
func TestRequest_AdoptWithoutClient(t *testing.T) {
	req := &kopf.Request[*corev1.Pod]{Object: &corev1.Pod{}}
	child := &corev1.ConfigMap{}
	if err := req.Adopt(child); err == nil || !strings.Contains(err.Error(), "set its Client") {
		t.Errorf("error without a client = %v, want an error about the client", err)
	}
	equal(t, "child after the error", child, &corev1.ConfigMap{})
}
