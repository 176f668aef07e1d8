package kopf_test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
)

// Contradictory options and options without effect are errors.
func TestCheckDeclaration_Contradictions(t *testing.T) {
	const s = time.Second
	pods := func(opts ...kopf.ResourceOption) *kopf.Resource[*corev1.Pod] {
		return kopf.For(&corev1.Pod{}, opts...).OnEvent("e", noopFor[*corev1.Pod])
	}
	thingsWith := func(opts ...kopf.ResourceOption) resources { return kopf.For(&thing{}, opts...).OnCreate("h", noop) }
	var noSchedule *hourly
	var nilMatcher filter.Matcher
	for name, test := range map[string]struct {
		given []kopf.Option
		words []string
	}{
		"two statuses of WhenCondition":      {[]kopf.Option{pods().OnCreate("h", noopFor[*corev1.Pod], kopf.WhenCondition("Ready", metav1.ConditionTrue), kopf.WhenCondition("Ready", metav1.ConditionFalse))}, []string{`OnCreate("h"): WhenCondition can never match`, "cannot be both True and False"}},
		"After a handler for another reason": {[]kopf.Option{onCreate(kopf.After("d")).OnDelete("d", noop)}, []string{`Thing: handler "h": After("d") has no effect, because no cause matches both handlers (create and delete): remove it`}},
		"an update after a creation":         {[]kopf.Option{onUpdate(kopf.After("c")).OnCreate("c", noop)}, []string{"no cause matches both handlers (update and create)"}},
		"a creation after resuming":          {[]kopf.Option{onCreate(kopf.After("r")).OnResume("r", noop)}, []string{"no cause matches both handlers (create and resume)"}},
		"Owns(nil)":                          {[]kopf.Option{onReconcile().Owns(nil)}, []string{"Thing: Owns(nil): pass an empty object"}},
		"Owns a nil pointer":                 {[]kopf.Option{onReconcile().Owns((*corev1.Pod)(nil))}, []string{"Thing: Owns(nil): pass an empty object"}},
		"Owns an unknown kind":               {[]kopf.Option{onReconcile().Owns(&unstructured.Unstructured{})}, []string{"Thing: Owns(*unstructured.Unstructured)", "set apiVersion and kind"}},
		"Owns with a nil predicate":          {[]kopf.Option{onReconcile().Owns(&corev1.Pod{}, nil)}, []string{"Thing: Owns(*v1.Pod) has a nil predicate: remove it"}},
		"a nil pointer as the schedule":      {[]kopf.Option{timerWith(daemons.Timer{Idle: s, Schedule: noSchedule})}, []string{`Timer("h"): Schedule is a nil pointer`}},
		"a contradiction within All":         {[]kopf.Option{onCreate(kopf.Label("a", filter.All(filter.Equal("a"), filter.Equal("b"))))}, []string{`Label("a") can never match: Equal(a) and Equal(b) are mutually exclusive`}},
		"a contradiction within To of All":   {[]kopf.Option{onUpdate(kopf.Field("spec.color", filter.To(filter.All(filter.Absent, filter.Equal("b")))))}, []string{"can never match", "are mutually exclusive"}},
		"a matcher within Equal":             {[]kopf.Option{onUpdate(kopf.Field("spec.size", filter.Equal(filter.Present)))}, []string{`Field("spec.size"): Equal(Present) compares with a matcher: remove Equal`}},
		"a nil matcher within From":          {[]kopf.Option{onUpdate(kopf.Field("spec.size", filter.From(nilMatcher)))}, []string{`Field("spec.size")`, "use Absent"}},
		"a contradiction of three matchers":  {[]kopf.Option{onCreate(kopf.Label("a", filter.Any(filter.Equal("b"), filter.Equal("c")), filter.Not(filter.Equal("b")), filter.Not(filter.Equal("c"))))}, []string{`Label("a") can never match: no value passes all of Any(Equal(b), Equal(c)), Not(Equal(b)), Not(Equal(c))`}},
		"a value that another excludes":      {[]kopf.Option{onCreate(kopf.Label("a", filter.Equal("b")), kopf.Label("a", filter.Not(filter.Equal("b"))))}, []string{`Label("a") can never match: Equal(b) and Not(Equal(b)) are mutually exclusive`}},
		"a label that must exist and not":    {[]kopf.Option{onCreate(kopf.Label("a"), kopf.Label("a", filter.Absent))}, []string{`Label("a") can never match: Present and Absent are mutually exclusive`}},
		"no alternative":                     {[]kopf.Option{onCreate(kopf.Label("a", filter.Any()))}, []string{`Label("a") can never match: no value passes Any()`}},
		"no value":                           {[]kopf.Option{daemon(kopf.Annotation("a", filter.None(filter.Present, filter.Absent)))}, []string{`Annotation("a") can never match: no value passes None(Present, Absent)`}},
		"an old value that is not allowed":   {[]kopf.Option{onUpdate(kopf.Field("spec.size", filter.From(1), filter.To(2), filter.Equal(3)))}, []string{`Field("spec.size") can never match: no value passes all of From(Equal(1)), To(Equal(2)), Equal(3)`}},
		"the resource version":               {[]kopf.Option{onField("metadata.resourceVersion")}, []string{`OnField("h"): Field("metadata.resourceVersion"): each write changes this field`, "use OnEvent"}},
		"an id with a space at its end":      {[]kopf.Option{newThings().OnReconcile("h ", noop)}, []string{`OnReconcile("h "): the id "h " begins or ends with a space`}},
		"Backoff of an event handler":        {[]kopf.Option{onEvent(kopf.Backoff(s))}, []string{`OnEvent("h"): Backoff, BackoffFunc and Timeout have no effect without Retries`, "add Retries"}},
		"Timeout of an event handler":        {[]kopf.Option{onEvent(kopf.Timeout(s))}, []string{"add Retries"}},
		"WriteChanges of a cause handler":    {[]kopf.Option{onCreate(kopf.WriteChanges())}, []string{`OnCreate("h"): WriteChanges has no effect on cause handlers: remove it`}},
		"no attempt hook":                    {[]kopf.Option{onCreate(), kopf.WithAttemptHook(nil)}, []string{"WithAttemptHook(nil)", "pass a function or remove the option"}},
		"a negative backoff of the operator": {[]kopf.Option{onCreate(), kopf.WithBackoff(-s)}, []string{"WithBackoff must not be negative, got -1s"}},
		"a backoff without a unit":           {[]kopf.Option{onCreate(), kopf.WithBackoff(30)}, []string{"WithBackoff is 30ns"}},
		"no consistency timeout":             {[]kopf.Option{onCreate(), kopf.WithConsistencyTimeout(0)}, []string{"WithConsistencyTimeout must be positive, got 0s"}},
		"a negative number of reconciles":    {[]kopf.Option{thingsWith(kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: -3}))}, []string{"MaxConcurrentReconciles must not be negative, got -3"}},
	} {
		t.Run(name, func(t *testing.T) { wantErrorOf(t, test.given, test.words) })
	}
	for name, given := range map[string]kopf.Option{
		"shared options, overridden":       onCreate(kopf.Backoff(s), kopf.Backoff(2*s), kopf.Retries(1), kopf.Retries(2)),
		"After one of several reasons":     newThings().OnCreateOrUpdate("a", noop).OnUpdate("h", noop, kopf.After("a")),
		"an update after resuming":         onUpdate(kopf.After("r")).OnResume("r", noop),
		"After a handler for a field":      onDelete(kopf.After("f")).OnField("f", "spec.size", noop),
		"conditions of two types":          pods().OnCreate("h", noopFor[*corev1.Pod], kopf.WhenCondition("A", metav1.ConditionTrue), kopf.WhenCondition("B", metav1.ConditionFalse)),
		"Owns two kinds":                   onReconcile().Owns(&corev1.Pod{}).Owns(&corev1.ConfigMap{}),
		"retries of an event handler":      onEvent(kopf.Retries(3), kopf.Backoff(s), kopf.Timeout(10*s), kopf.WriteChanges()),
		"a matcher with a function":        onCreate(kopf.Label("a", filter.Match(func(any) bool { return false }), filter.Any(filter.Equal("b"), filter.Match(func(any) bool { return false })))),
		"a change to an allowed value":     onUpdate(kopf.Field("spec.size", filter.From(1), filter.To(2), filter.Any(filter.Equal(2), filter.Equal(3)))),
		"alternatives with one in common":  onCreate(kopf.Label("a", filter.Any(filter.Equal("b"), filter.Equal("c")), filter.Not(filter.Equal("b")))),
		"the resource version for OnEvent": onEvent(kopf.Field("metadata.resourceVersion")),
	} {
		t.Run("valid: "+name, func(t *testing.T) { wantValid(t, given) })
	}
}

// The error for a kind that is not served suggests similar kinds.
func TestErrNotServed_SuggestsKind(t *testing.T) {
	served := map[string][]string{
		"example.com/v1": {"Database", "User"}, "example.com/v1alpha1": {"Backup"}, "v1": {"Pod"}, "apps/v1": {"Deployment"}, "events.k8s.io/v1": {"Event"},
	}
	for gvk, want := range map[schema.GroupVersionKind]string{
		{Group: "example.com", Version: "v1", Kind: "Databse"}:    "the API server serves example.com/v1, but has no kind Databse; did you mean Database?",
		{Group: "example.com", Version: "v1", Kind: "database"}:   "the API server serves example.com/v1, but has no kind database; did you mean Database?",
		{Group: "example.com", Version: "v1", Kind: "Databases"}:  "the API server serves example.com/v1, but has no kind Databases; did you mean Database?",
		{Group: "example.com", Version: "v1", Kind: "Backup"}:     "the API server serves example.com/v1, but has no kind Backup; it serves Backup in example.com/v1alpha1: correct the version",
		{Group: "example.com", Version: "v2", Kind: "Database"}:   "the API server does not serve example.com/v2, but serves other versions of the group; it serves Database in example.com/v1: correct the version",
		{Group: "example.com", Version: "v1", Kind: "Deployment"}: "the API server serves example.com/v1, but has no kind Deployment; it serves Deployment in apps/v1: correct the group, or install the CustomResourceDefinition",
		{Group: "exmaple.com", Version: "v1", Kind: "Database"}:   "the API server does not serve exmaple.com/v1; did you mean example.com/v1, which has a kind Database?",
		{Group: "", Version: "v1", Kind: "Deployment"}:            "the API server serves v1, but has no kind Deployment; it serves Deployment in apps/v1: correct the group, or install the CustomResourceDefinition",
		{Group: "example.com", Version: "v1", Kind: "Something"}:  "the API server serves example.com/v1, but has no kind Something: correct the group, version or kind, or install the CustomResourceDefinition of the kind",
		{Group: "other.com", Version: "v1", Kind: "Something"}:    "the API server does not serve other.com/v1: install its CustomResourceDefinition first, or add WhenServed to For",
	} {
		if err := kopf.ErrNotServed(gvk, served); err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", gvk, err, want)
		}
	}
}

// For kinds without a Go type, the fields are checked against the schema.
func TestWarningsOfFields(t *testing.T) {
	props := &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"size": {Type: "integer"}, "port": {XIntOrString: true}, "open": {Type: "object", XPreserveUnknownFields: new(true), Properties: map[string]apiextensionsv1.JSONSchemaProps{"known": {Type: "string"}}},
			"parts":  {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}},
			"paused": {Type: "boolean"},
		}},
	}}
	untyped := func(context.Context, *kopf.Request[*unstructured.Unstructured]) error { return nil }
	for _, test := range []struct {
		field kopf.HandlerOption
		want  []string
	}{
		{kopf.Field("spec.size", filter.Equal(10)), nil},
		{kopf.Field("/spec/size"), []string{"the schema of the kind has no field /spec/size: correct the path; separate the names with dots, such as spec.size"}},
		{kopf.Field("spec.sise"), []string{"the schema of the kind has no field spec.sise: correct the path; did you mean spec.size?"}},
		{kopf.Field("Spec.Size"), []string{"the schema of the kind has no field Spec: correct the path; did you mean spec.size?"}},
		{kopf.Field("spec.size", filter.Equal("10")), []string{`"10" can never match: the field is an integer: use 10`}},
		{kopf.Field("spec.port", filter.Equal("http")), nil},
		{kopf.Field("spec.open.at.all", filter.Equal("http")), nil},
		{kopf.Field("spec.open.known", filter.Equal(1)), []string{`1 can never match: the field is a string: use "1"`}},
		{kopf.Field("spec.parts.wheel", filter.Equal(1)), []string{`1 can never match: the field is a string: use "1"`}},
		{kopf.Field(`spec.parts.example.com/wheel`), []string{`the schema of the kind has no field spec.parts.example.com/wheel: correct the path; did you mean spec.parts.example\.com/wheel?`}},
		{kopf.Field("spec.paused", filter.Equal(false)), nil},
	} {
		if got := kopf.WarningsOfFields(kopf.For(kopf.Unstructured(thingGVK)).OnUpdate("h", untyped, test.field), props); !slices.Equal(got, test.want) {
			t.Errorf("got  %q\nwant %q", got, test.want)
		}
	}
	if got := kopf.WarningsOfFields(onUpdate(kopf.Field("spec.sise")), props); len(got) > 0 {
		t.Errorf("warnings for a Go type = %q, want none", got)
	}
}
