package kopf_test

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// An offline manager has what a declaration is checked with: a scheme.
type offline struct {
	manager.Manager
	scheme *runtime.Scheme
}

func (o offline) GetScheme() *runtime.Scheme { return o.scheme }
func (o offline) GetClient() client.Client   { return nil }

var thingGVK = schema.GroupVersionKind{Group: "test.example.com", Version: "v1", Kind: "Thing"}

// A thing has fields of all sorts.
type thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   thingSpec `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

type thingSpec struct {
	common
	Size     *int                 `json:"size,omitempty"`
	Parts    map[string]part      `json:"parts"`
	List     []part               `json:"list"`
	When     metav1.Time          `json:"when"`
	Anything runtime.RawExtension `json:"anything"`
	Any      any                  `json:"any"`
	Untagged string
	Hidden   string             `json:"-"`
	On       bool               `json:"on,omitempty"`
	Replicas int32              `json:"replicas,omitempty"`
	Note     string             `json:"note,omitempty"`
	Port     intstr.IntOrString `json:"port"`
	Bytes    []byte             `json:"bytes"`
	Ratio    float64            `json:"ratio"`
	Quoted   int                `json:"quoted,string"`
}

type common struct {
	Color string `json:"color"`
}

type part struct {
	Name string `json:"name"`
}

func (t *thing) DeepCopyObject() runtime.Object { out := *t; return &out }

func manage() manager.Manager {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	scheme.AddKnownTypeWithName(thingGVK, &thing{})
	return offline{scheme: scheme}
}

type (
	th        = *thing
	resources = *kopf.Resource[th]
)

func nothing(context.Context, *kopf.Request[th]) error { return nil }

func things() resources { return kopf.For(&thing{}) }

// created, updated, observed and leveled are resources with one handler of that sort, with options.
func created(opts ...kopf.HandlerOption) resources { return things().OnCreate("h", nothing, opts...) }
func updated(opts ...kopf.HandlerOption) resources { return things().OnUpdate("h", nothing, opts...) }
func deleted(opts ...kopf.HandlerOption) resources { return things().OnDelete("h", nothing, opts...) }
func resumed(opts ...kopf.HandlerOption) resources { return things().OnResume("h", nothing, opts...) }
func observed(opts ...kopf.HandlerOption) resources {
	return things().OnEvent("h", nothing, opts...)
}

func leveled(opts ...kopf.HandlerOption) resources {
	return things().OnReconcile("h", nothing, opts...)
}

func onField(path string, opts ...kopf.HandlerOption) resources {
	return things().OnField("h", path, nothing, opts...)
}

func onChange(opts ...kopf.HandlerOption) resources {
	get := func(t th) string { return t.Status.Phase }
	return kopf.OnChange(things(), "h", get, func(context.Context, *kopf.Request[th], string, string) error { return nil }, opts...)
}

func keyed(opts ...kopf.HandlerOption) resources {
	r := things()
	kopf.IndexBy(r, "h", func(context.Context, *kopf.Request[th]) (map[string]int, error) { return nil, nil }, opts...)
	return r
}

// Each mistake is told in one line: whose it is, what is wrong, what to do. B-21 and house rule.
func TestMistakes(t *testing.T) {
	size, second := kopf.Field("spec.size"), time.Second
	yes := func(any) bool { return true }
	for _, test := range []struct {
		name  string
		given kopf.Option
		words []string // in this order
	}{
		// Fields that the Go type does not have.
		{"HND-05 an unknown field", updated(kopf.Field("spec.sise")), []string{`Thing: OnUpdate("h"): Field("spec.sise")`, "no field spec.sise", "correct the path"}},
		{"HND-05 an unknown stanza", updated(kopf.Field("sepc.size")), []string{`OnUpdate("h"): Field("sepc.size")`, "no field sepc:"}},
		{"HND-05 an unknown field of OnField", onField("spec.sise"), []string{`Thing: OnField("h"): `, "no field spec.sise", "correct the path"}},
		{"HND-05 an unknown field of OnEvent", observed(kopf.Field("spec.sise")), []string{`Thing: OnEvent("h"): `, "spec.sise"}},
		{"HND-05 an unknown field of OnReconcile", leveled(kopf.Field("spec.sise")), []string{`Thing: OnReconcile("h"): `, "spec.sise"}},
		{"HND-05 an unknown field of an index", keyed(kopf.Field("spec.sise")), []string{`Thing: IndexBy("h"): `, "spec.sise"}},
		{"HND-05 below a number", updated(kopf.Field("spec.size.x")), []string{"no field spec.size.x"}},
		{"HND-05 below a value of a map", updated(kopf.Field("spec.parts.wheel.nick")), []string{"no field spec.parts.wheel.nick"}},
		{"HND-05 into a list", updated(kopf.Field("spec.list.0")), []string{"no field spec.list.0"}},
		{"HND-05 a field that is not in the JSON form", updated(kopf.Field("spec.hidden")), []string{"no field spec.hidden"}},
		{"HND-05 the name in Go", updated(kopf.Field("spec.Size")), []string{"no field spec.Size"}},
		{"HND-05 a dot within a key that is not escaped", updated(kopf.Field("metadata.labels.example.com/tier")), []string{"no field metadata.labels.example.com/tier"}},
		{
			"HND-05 a field that is not watched", kopf.For(kopf.Metadata(thingGVK)).OnUpdate("h",
				func(context.Context, *kopf.Request[*metav1.PartialObjectMetadata]) error { return nil }, size),
			[]string{`Thing: OnUpdate("h"): `, "no field spec"},
		},
		{"HND-05 an empty path", updated(kopf.Field("")), []string{`Thing: OnUpdate("h"): Field("")`, "empty key", `"spec.size"`}},
		{"HND-05 an empty key", onField("spec..size"), []string{`Thing: OnField("h"): Field("spec..size")`, "empty key", `"\."`}},
		{"HND-05 two fields", updated(size, kopf.Field("spec.color")), []string{`OnUpdate("h"): Field("spec.color")`, "another field already (spec.size)", "one"}},
		{"HND-05 another field in OnField", onField("spec.size", kopf.Field("spec.color")), []string{`OnField("h"): Field("spec.color")`, "another field already"}},

		// Filters that can never match.
		{"FLT-02 no key of a label", created(kopf.Label("a b")), []string{`Thing: OnCreate("h"): Label("a b")`, "can never match", "no object has such a key"}},
		{"FLT-02 an empty key", created(kopf.Label("")), []string{`Label("")`, "can never match"}},
		{"FLT-02 no key of an annotation", created(kopf.Annotation("a/b/c")), []string{`Annotation("a/b/c")`, "can never match"}},
		{"FLT-02 no value of a label", created(kopf.Label("a", filter.Equal("b c"))), []string{`Label("a")`, "can never match", `"b c"`}},
		{"FLT-02 a label that is a number", created(kopf.Label("a", filter.Equal(1))), []string{`Label("a")`, "can never match", "strings", "1"}},
		{"FLT-02 an annotation that is a boolean", created(kopf.Annotation("a", filter.Equal(true))), []string{`Annotation("a")`, "can never match", "strings", "true"}},
		{"FLT-02 two values at once", created(kopf.Label("a", filter.Equal("b"), filter.Equal("c"))), []string{"can never match", "Equal(b)", "Equal(c)", "exclude each other"}},
		{"FLT-02 there and not there", created(kopf.Annotation("a", filter.Present, filter.Absent)), []string{"can never match", "Present", "Absent"}},
		{"FLT-02 a value and not there", created(kopf.Label("a", filter.Absent, filter.Equal("b"))), []string{"can never match", "Absent", "Equal(b)"}},
		{"FLT-02 two values in two options", created(kopf.Label("a", filter.Equal("b")), kopf.Label("a", filter.Equal("c"))), []string{`Label("a")`, "can never match", "Equal(b)", "Equal(c)"}},
		{"FLT-05 two values of a field", created(kopf.Field("spec.size", filter.Equal(1), filter.Equal(2))), []string{`Field("spec.size")`, "can never match", "Equal(1)", "Equal(2)"}},
		{"FLT-05 two values of a field in two options", created(kopf.Field("spec.size", filter.Equal(1)), kopf.Field("spec.size", filter.Equal(2))), []string{`Field("spec.size")`, "can never match", "Equal(1)", "Equal(2)"}},
		{"FLT-08 from two values", updated(kopf.Field("spec.size", filter.From(1), filter.From(2))), []string{"can never match", "From(Equal(1))", "From(Equal(2))"}},
		{"FLT-08 to two values", updated(kopf.Field("spec.size", filter.To(1), filter.To(filter.Absent))), []string{"can never match", "To(Equal(1))", "To(Absent)"}},
		{"FLT-07 FLT-08 from a value to the same", updated(kopf.Field("spec.size", filter.From(1), filter.To(1))), []string{`Field("spec.size")`, "can never match", "From(Equal(1))", "To(Equal(1))"}},
		{"FLT-07 FLT-08 from absent to absent", onField("spec.size", kopf.Field("spec.size", filter.From(filter.Absent), filter.To(filter.Absent))), []string{"can never match", "From(Absent)", "To(Absent)"}},

		// Matchers that are none.
		{"HND-07 equal to nil", created(kopf.Label("a", filter.Equal(nil))), []string{`Label("a")`, "Equal(nil)", "use Absent"}},
		{"HND-07 from nil", updated(kopf.Field("spec.size", filter.From(nil))), []string{`Field("spec.size")`, "nil", "use Absent"}},
		{"HND-07 a nil matcher", created(kopf.Label("a", nil)), []string{`Label("a")`, "a matcher is nil", "leave it out"}},
		{"HND-07 a nil matcher in another", created(kopf.Label("a", filter.Any(filter.Present, nil))), []string{`Label("a")`, "a matcher is nil", "leave it out"}},
		{"HND-07 no function", created(kopf.Field("spec.size", filter.Match(nil))), []string{`Field("spec.size")`, "Match(nil)", "give it a function"}},
		{"HND-07 a value without a JSON form", created(kopf.Field("spec.size", filter.Equal(make(chan int)))), []string{`Field("spec.size")`, "Equal", "JSON"}},

		// Sides.
		{"HND-06 From of a label", updated(kopf.Label("a", filter.From("b"))), []string{`Label("a")`, "From and To are for fields", "Field"}},
		{"HND-06 To of an annotation", updated(kopf.Annotation("a", filter.To("b"))), []string{`Annotation("a")`, "From and To are for fields", "Field"}},
		{"FLT-08 From on creation", created(kopf.Field("spec.size", filter.From(1))), []string{`Thing: OnCreate("h"): Field("spec.size")`, "From and To", "no old state"}},
		{"FLT-08 To on deletion", deleted(kopf.Field("spec.size", filter.To(1))), []string{`Thing: OnDelete("h"): `, "From and To", "no old state"}},
		{"FLT-08 To on resuming", resumed(kopf.Field("spec.size", filter.To(1))), []string{`Thing: OnResume("h"): `, "From and To", "no old state"}},
		{"FLT-08 From of a spy", observed(kopf.Field("spec.size", filter.From(1))), []string{`Thing: OnEvent("h"): `, "From and To", "no old state"}},
		{"FLT-08 From of a level", leveled(kopf.Field("spec.size", filter.From(1))), []string{`Thing: OnReconcile("h"): `, "From and To", "no old state"}},
		{"FLT-08 From of an index", keyed(kopf.Field("spec.size", filter.From(1))), []string{`Thing: IndexBy("h"): `, "From and To", "no old state"}},
		{"FLT-08 From within To", updated(kopf.Field("spec.size", filter.To(filter.From(1)))), []string{"To(From(Equal(1)))", "cannot be nested"}},
		{"FLT-14 From within Not", updated(kopf.Field("spec.size", filter.Not(filter.From(1)))), []string{"Not(From(Equal(1)))", "around it"}},

		// Owners.
		{"OwnedBy(nil)", created(kopf.OwnedBy(nil)), []string{`Thing: OnCreate("h"): OwnedBy(nil)`, "give it an object"}},
		{"OwnedBy a nil pointer", created(kopf.OwnedBy((*corev1.Pod)(nil))), []string{"OwnedBy(nil)", "give it an object"}},
		{"OwnedBy an unknown kind", created(kopf.OwnedBy(&unstructured.Unstructured{})), []string{`OnCreate("h"): OwnedBy(*unstructured.Unstructured)`, "scheme"}},

		// Ids.
		{"B-21 the same id for the same field", updated(size).OnField("h", "spec.size", nothing), []string{`Thing: OnField("h"): `, `"h/spec.size"`, "used twice", "another id"}},
		{"B-21 the same id in two views", created().When(func(*kopf.Request[th]) bool { return true }).OnUpdate("h", nothing), []string{`Thing: OnUpdate("h"): `, "used twice"}},
		{"B-21 the same id for a spy", created().OnEvent("h", nothing), []string{`Thing: OnEvent("h"): `, "used twice"}},
		{"B-21 an empty id of a handler for a field", things().OnField("", "spec.size", nothing), []string{`Thing: OnField(""): `, "empty", "give it a name"}},
		{
			"B-21 an empty id of OnChange",
			kopf.OnChange(things(), "", func(th) int { return 0 }, func(context.Context, *kopf.Request[th], int, int) error { return nil }),
			[]string{`Thing: OnChange(""): `, "empty"},
		},

		// After.
		{"After nobody", created(kopf.After()), []string{`Thing: OnCreate("h"): After`, "needs the ids"}},
		{"After an empty id", created(kopf.After("")), []string{`Thing: OnCreate("h"): After`, "needs the ids"}},
		{"After an unknown id", created(kopf.After("g")), []string{"Thing: ", `"h"`, `"g"`, "no handler of this kind", "correct the id"}},
		{"After a spy", things().OnEvent("spy", nothing).OnCreate("h", nothing, kopf.After("spy")), []string{"Thing: ", `"h"`, `"spy"`}},
		{"After itself", created(kopf.After("h")), []string{"Thing: ", "h → h", "circle", "leave out one After"}},
		{
			"After each other", things().OnCreate("a", nothing, kopf.After("b")).OnCreate("b", nothing, kopf.After("c")).
				OnCreate("c", nothing, kopf.After("a")), []string{"Thing: ", "a → b → c → a", "circle", "leave out one After"},
		},
		{
			"After each other, with others before", things().OnCreate("a", nothing, kopf.After("b")).
				OnCreate("b", nothing, kopf.After("c", "a2")).OnCreate("a2", nothing).OnCreate("c", nothing, kopf.After("b")),
			[]string{"Thing: ", "b → c → b", "circle"},
		},
		{
			"After one of two fields", things().OnField("f", "spec.size", nothing).OnField("f", "spec.color", nothing).
				OnCreate("h", nothing, kopf.After("f")), []string{"Thing: ", `"h"`, `"f"`},
		},

		// Options for others.
		{"After of a spy", observed(kopf.After("x")), []string{`Thing: OnEvent("h"): After`, "OnEvent handler", "leave it out"}},
		{"After of a level", leveled(kopf.After("x")), []string{`Thing: OnReconcile("h"): After`, "leave it out"}},
		{"Retries of a spy", observed(kopf.Retries(1)), []string{`Thing: OnEvent("h"): Retries`, "leave it out"}},
		{"Timeout of a spy", observed(kopf.Timeout(second)), []string{`Thing: OnEvent("h"): Timeout`, "leave it out"}},
		{"Backoff of a spy", observed(kopf.Backoff(second)), []string{`Thing: OnEvent("h"): Backoff`, "leave it out"}},
		{"ErrorMode of a spy", observed(kopf.ErrorMode(progress.ErrorsIgnored)), []string{`Thing: OnEvent("h"): ErrorMode`, "leave it out"}},
		{"Interval of a handler for causes", created(kopf.Interval(second)), []string{`Thing: OnCreate("h"): Interval`, "leave it out"}},
		{"Interval of an index", keyed(kopf.Interval(second)), []string{`Thing: IndexBy("h"): Interval`, "leave it out"}},
		{"Interval of zero", leveled(kopf.Interval(0)), []string{`Thing: OnReconcile("h"): Interval`, "more than zero"}},
		{"Optional of a spy", observed(kopf.Optional()), []string{`Thing: OnEvent("h"): Optional`, "delete handlers"}},
		{"Optional of an update", updated(kopf.Optional()), []string{`Thing: OnUpdate("h"): Optional`, "delete handlers"}},
		{"Optional of OnField", onField("spec.size", kopf.Optional()), []string{`Thing: OnField("h"): Optional`}},
		{"EvenIfDeleted of an update", updated(kopf.EvenIfDeleted()), []string{`Thing: OnUpdate("h"): EvenIfDeleted`, "resume handlers"}},
		{"Backoff and BackoffFunc", created(kopf.Backoff(second), kopf.BackoffFunc(progress.Exponential(second, second))), []string{`Thing: OnCreate("h"): `, "both Backoff and BackoffFunc", "leave one out"}},
		{"Label of an activity", kopf.OnStartup("h", func(context.Context) error { return nil }, kopf.Label("a")), []string{`OnStartup("h"): Label`, "leave it out"}},

		// Functions that are none.
		{"a nil handler for a field", things().OnField("h", "spec.size", nil), []string{`Thing: OnField("h"): `, "nil", "give it a function"}},
		{"a nil spy", things().OnEvent("h", nil), []string{`Thing: OnEvent("h"): `, "nil", "give it a function"}},
		{"a nil level", things().OnReconcile("h", nil), []string{`Thing: OnReconcile("h"): `, "nil", "give it a function"}},
		{"OnChange without a handler", kopf.OnChange(things(), "h", func(th) int { return 0 }, nil), []string{`Thing: OnChange("h"): `, "nil", "give it a function"}},
		{
			"OnChange without a getter",
			kopf.OnChange(things(), "h", nil, func(context.Context, *kopf.Request[th], int, int) error { return nil }),
			[]string{`Thing: OnChange("h"): `, "nil", "give it one"},
		},
		{"When(nil)", created().When(nil), []string{"Thing: When(nil)", "give it a function"}},
		{"Use(nil)", created().Use(nil), []string{"Thing: Use", "nil middleware", "leave it out"}},
		{
			"Use of one that makes nothing",
			things().Use(func(kopf.Handler[th]) kopf.Handler[th] { return nil }).OnCreate("h", nothing),
			[]string{`Thing: OnCreate("h"): `, "middleware", "nil"},
		},
	} {
		t.Run(test.name, func(t *testing.T) { isTold(t, test.given, test.words) })
	}

	for _, test := range []struct {
		name  string
		given kopf.Option
	}{
		{"HND-05 a field", updated(size)},
		{"HND-05 a whole stanza", updated(kopf.Field("spec"))},
		{"HND-05 a field of an embedded struct", updated(kopf.Field("spec.color"))},
		{"HND-05 a field without a tag has its name in Go", updated(kopf.Field("spec.Untagged"))},
		{"HND-05 a key of a map", updated(kopf.Field("spec.parts.wheel"))},
		{"HND-05 a field below a key of a map", updated(kopf.Field("spec.parts.wheel.name"))},
		{"HND-05 a list", updated(kopf.Field("spec.list"))},
		{"HND-05 a time", updated(kopf.Field("spec.when"))},
		{"HND-05 below what may be anything", updated(kopf.Field("spec.anything.at.all"))},
		{"HND-05 below an interface", updated(kopf.Field("spec.any.thing"))},
		{"HND-05 a label", updated(kopf.Field(`metadata.labels.example\.com/tier`))},
		{"HND-05 the generation", updated(kopf.Field("metadata.generation"))},
		{"ESS-04 a field of the status", onField("status.phase")},
		{"HND-05 any field of a kind without a Go type", kopf.For(kopf.Unstructured(thingGVK)).OnUpdate("h",
			func(context.Context, *kopf.Request[*unstructured.Unstructured]) error { return nil }, kopf.Field("what.ever"))},
		{"HND-05 a label of a kind of which the metadata is watched", kopf.For(kopf.Metadata(thingGVK)).OnUpdate("h",
			func(context.Context, *kopf.Request[*metav1.PartialObjectMetadata]) error { return nil }, kopf.Field("metadata.labels.a"))},
		{"FLT-02 all sorts of matchers of one key", created(kopf.Label("a", filter.Present, filter.Not(filter.Equal("b")), filter.Match(yes)))},
		{"FLT-02 the same value twice", created(kopf.Label("a", filter.Equal("b"), filter.Equal("b")))},
		{"FLT-02 an empty value", created(kopf.Label("a", filter.Equal("")), kopf.Annotation("a", filter.Equal("all sorts of text")))},
		{"FLT-08 From and To of a field", onField("spec.size", kopf.Field("spec.size", filter.From(filter.Absent), filter.To(1)))},
		{"FLT-08 From and To of an update", updated(kopf.Field("spec.size", filter.From(2), filter.To(1)))},
		{"FLT-08 From and To of one of several reasons", things().On("h", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}, nothing, kopf.Field("spec.size", filter.To(1)))},
		{"FLT-08 From and To of OnChange", onChange(kopf.Field("spec.size", filter.From(2)))},
		{"HND-13 one id for two fields", onField("spec.size").OnField("h", "spec.color", nothing)},
		{"HND-03 one id with and without a field", created().OnField("h", "spec.color", nothing)},
		{"After a handler for a field, named in short", onField("spec.size").OnUpdate("g", nothing, kopf.After("h"))},
		{"After a handler for a field, named in full", onField("spec.size").OnUpdate("g", nothing, kopf.After("h/spec.size"))},
		{"After one that is declared later", things().OnCreate("a", nothing, kopf.After("b")).OnCreate("b", nothing)},
		{"OwnedBy a kind of the scheme", created(kopf.OwnedBy(&appsv1.Deployment{}), kopf.OwnedBy(&corev1.Pod{}))},
		{"OwnedBy a kind without a Go type", created(kopf.OwnedBy(kopf.Unstructured(schema.GroupVersionKind{Group: "x.example.com", Version: "v1", Kind: "X"})))},
		{"an option that is nil does nothing", created(nil)},
		{"a view and its resource", created().When(func(*kopf.Request[th]) bool { return true })},
	} {
		t.Run("no mistake: "+test.name, func(t *testing.T) { isNoMistake(t, test.given) })
	}
}

// isTold sees to it that there is one mistake, which is told with the words, in this order.
func isTold(t *testing.T, given kopf.Option, words []string) {
	t.Helper()
	reportsMistake(t, withResource(given), words)
}

// reportsMistake is isTold for several options.
func reportsMistake(t *testing.T, given []kopf.Option, words []string) {
	t.Helper()
	op := kopf.New(manage(), given...)
	err := op.CheckDeclaration()
	if err == nil {
		t.Fatal("it is valid")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 2 || lines[0] != "the operator cannot start:" {
		t.Fatalf("want a heading and one mistake, got:\n%s", err)
	}
	rest := lines[1]
	for _, word := range words {
		i := strings.Index(rest, word)
		if i < 0 {
			t.Errorf("%q is missing in: %s", word, lines[1])
			continue
		}
		rest = rest[i:]
	}
	if again := op.CheckDeclaration(); again == nil || again.Error() != err.Error() {
		t.Errorf("when asked again, it is told otherwise: %v", again)
	}
}

func isNoMistake(t *testing.T, given kopf.Option) {
	t.Helper()
	op := kopf.New(manage(), given)
	if err := op.CheckDeclaration(); err != nil {
		t.Error(err)
	}
	if err := op.CheckDeclaration(); err != nil {
		t.Errorf("when asked again: %s", err)
	}
}

// withResource gives options that are no resource one to go with them.
func withResource(given kopf.Option) []kopf.Option {
	switch given.(type) {
	case resources, *kopf.Resource[*metav1.PartialObjectMetadata]:
		return []kopf.Option{given}
	default:
		return []kopf.Option{given, created()}
	}
}

// B-21: a view that is given to the operator beside its resource is the same resource.
func TestViewsAreOneResource(t *testing.T) {
	all := created()
	view := all.When(func(*kopf.Request[th]) bool { return true }).OnUpdate("g", nothing)
	if err := kopf.New(manage(), all, view, view.When(func(*kopf.Request[th]) bool { return false })).CheckDeclaration(); err != nil {
		t.Error(err)
	}
	view.OnDelete("bad:id", nothing)
	if err := kopf.New(manage(), all).CheckDeclaration(); err == nil || !strings.Contains(err.Error(), `OnDelete("bad:id")`) {
		t.Errorf("the mistake of a view is told by its resource: %v", err)
	}
}
