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

// offline is a manager with a scheme and without an API server.
type offline struct {
	manager.Manager
	scheme *runtime.Scheme
}

func (o offline) GetScheme() *runtime.Scheme { return o.scheme }
func (o offline) GetClient() client.Client   { return nil }
func (offline) GetAPIReader() client.Reader  { return nil }

var thingGVK = schema.GroupVersionKind{Group: "test.example.com", Version: "v1", Kind: "Thing"}

// thing has fields of many types.
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

func newManager() manager.Manager {
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

func noop(context.Context, *kopf.Request[th]) error { return nil }

func newThings() resources { return kopf.For(&thing{}) }

// onCreate and the following functions return resources with one handler.
func onCreate(opts ...kopf.HandlerOption) resources { return newThings().OnCreate("h", noop, opts...) }
func onUpdate(opts ...kopf.HandlerOption) resources { return newThings().OnUpdate("h", noop, opts...) }
func onDelete(opts ...kopf.HandlerOption) resources { return newThings().OnDelete("h", noop, opts...) }
func onResume(opts ...kopf.HandlerOption) resources { return newThings().OnResume("h", noop, opts...) }
func onEvent(opts ...kopf.HandlerOption) resources {
	return newThings().OnEvent("h", noop, opts...)
}

func onReconcile(opts ...kopf.HandlerOption) resources {
	return newThings().OnReconcile("h", noop, opts...)
}

func onField(path string, opts ...kopf.HandlerOption) resources {
	return newThings().OnField("h", path, noop, opts...)
}

func onChange(opts ...kopf.HandlerOption) resources {
	get := func(t th) string { return t.Status.Phase }
	return kopf.OnChange(newThings(), "h", get, func(context.Context, *kopf.Request[th], string, string) error { return nil }, opts...)
}

func indexBy(opts ...kopf.HandlerOption) resources {
	r := newThings()
	kopf.IndexBy(r, "h", func(context.Context, *kopf.Request[th]) (map[string]int, error) { return nil, nil }, opts...)
	return r
}

// B-21: each error is one line with the kind, the handler, the problem and the advice.
func TestCheckDeclaration_Handlers(t *testing.T) {
	size, second := kopf.Field("spec.size"), time.Second
	yes := func(any) bool { return true }
	for _, test := range []struct {
		name  string
		given kopf.Option
		words []string // words of the error, in this order
	}{
		// Fields that the Go type does not have.
		{"HND-05 an unknown field", onUpdate(kopf.Field("spec.sise")), []string{`Thing: OnUpdate("h"): Field("spec.sise")`, "no field spec.sise", "correct the path"}},
		{"HND-05 an unknown top-level field", onUpdate(kopf.Field("sepc.size")), []string{`OnUpdate("h"): Field("sepc.size")`, "no field sepc:"}},
		{"HND-05 an unknown field of OnField", onField("spec.sise"), []string{`Thing: OnField("h"): `, "no field spec.sise", "correct the path"}},
		{"HND-05 an unknown field of OnEvent", onEvent(kopf.Field("spec.sise")), []string{`Thing: OnEvent("h"): `, "spec.sise"}},
		{"HND-05 an unknown field of OnReconcile", onReconcile(kopf.Field("spec.sise")), []string{`Thing: OnReconcile("h"): `, "spec.sise"}},
		{"HND-05 an unknown field of an index", indexBy(kopf.Field("spec.sise")), []string{`Thing: IndexBy("h"): `, "spec.sise"}},
		{"HND-05 a field of a number", onUpdate(kopf.Field("spec.size.x")), []string{"no field spec.size.x"}},
		{"HND-05 an unknown field of a map value", onUpdate(kopf.Field("spec.parts.wheel.nick")), []string{"no field spec.parts.wheel.nick"}},
		{"HND-05 an index of a list", onUpdate(kopf.Field("spec.list.0")), []string{"no field spec.list.0"}},
		{"HND-05 a field that is not encoded", onUpdate(kopf.Field("spec.hidden")), []string{"no field spec.hidden"}},
		{"HND-05 the Go name of a field", onUpdate(kopf.Field("spec.Size")), []string{"no field spec.Size"}},
		{"HND-05 an unescaped dot within a key", onUpdate(kopf.Field("metadata.labels.example.com/tier")), []string{"no field metadata.labels.example.com/tier"}},
		{
			"HND-05 a field of a metadata-only kind", kopf.For(kopf.Metadata(thingGVK)).OnUpdate("h",
				func(context.Context, *kopf.Request[*metav1.PartialObjectMetadata]) error { return nil }, size),
			[]string{`Thing: OnUpdate("h"): `, "no field spec"},
		},
		{"HND-05 an empty path", onUpdate(kopf.Field("")), []string{`Thing: OnUpdate("h"): Field("")`, "empty key", `"spec.size"`}},
		{"HND-05 an empty key", onField("spec..size"), []string{`Thing: OnField("h"): Field("spec..size")`, "empty key", `"\."`}},
		{"HND-05 two Field options", onUpdate(size, kopf.Field("spec.color")), []string{`OnUpdate("h"): Field("spec.color")`, "already has the field spec.size", "add a handler for each field"}},
		{"HND-05 a second field in OnField", onField("spec.size", kopf.Field("spec.color")), []string{`OnField("h"): Field("spec.color")`, "already has the field"}},

		// Filters that can never match.
		{"FLT-02 an invalid label key", onCreate(kopf.Label("a b")), []string{`Thing: OnCreate("h"): Label("a b")`, "can never match", "the key is invalid"}},
		{"FLT-02 an empty key", onCreate(kopf.Label("")), []string{`Label("")`, "can never match"}},
		{"FLT-02 an invalid annotation key", onCreate(kopf.Annotation("a/b/c")), []string{`Annotation("a/b/c")`, "can never match"}},
		{"FLT-02 an invalid label value", onCreate(kopf.Label("a", filter.Equal("b c"))), []string{`Label("a")`, "can never match", `"b c"`}},
		{"FLT-02 a number as a label", onCreate(kopf.Label("a", filter.Equal(1))), []string{`Label("a")`, "can never match", "strings", "1"}},
		{"FLT-02 a boolean as an annotation", onCreate(kopf.Annotation("a", filter.Equal(true))), []string{`Annotation("a")`, "can never match", "strings", "true"}},
		{"FLT-02 two values of a label", onCreate(kopf.Label("a", filter.Equal("b"), filter.Equal("c"))), []string{"can never match", "Equal(b)", "Equal(c)", "are mutually exclusive"}},
		{"FLT-02 Present and Absent", onCreate(kopf.Annotation("a", filter.Present, filter.Absent)), []string{"can never match", "Present", "Absent"}},
		{"FLT-02 a value and Absent", onCreate(kopf.Label("a", filter.Absent, filter.Equal("b"))), []string{"can never match", "Absent", "Equal(b)"}},
		{"FLT-02 two values in two options", onCreate(kopf.Label("a", filter.Equal("b")), kopf.Label("a", filter.Equal("c"))), []string{`Label("a")`, "can never match", "Equal(b)", "Equal(c)"}},
		{"FLT-05 two values of a field", onCreate(kopf.Field("spec.size", filter.Equal(1), filter.Equal(2))), []string{`Field("spec.size")`, "can never match", "Equal(1)", "Equal(2)"}},
		{"FLT-05 two values of a field in two options", onCreate(kopf.Field("spec.size", filter.Equal(1)), kopf.Field("spec.size", filter.Equal(2))), []string{`Field("spec.size")`, "can never match", "Equal(1)", "Equal(2)"}},
		{"FLT-08 From with two values", onUpdate(kopf.Field("spec.size", filter.From(1), filter.From(2))), []string{"can never match", "From(Equal(1))", "From(Equal(2))"}},
		{"FLT-08 To with two values", onUpdate(kopf.Field("spec.size", filter.To(1), filter.To(filter.Absent))), []string{"can never match", "To(Equal(1))", "To(Absent)"}},
		{"FLT-07 FLT-08 From and To with the same value", onUpdate(kopf.Field("spec.size", filter.From(1), filter.To(1))), []string{`Field("spec.size")`, "can never match", "From(Equal(1))", "To(Equal(1))"}},
		{"FLT-07 FLT-08 From and To with Absent", onField("spec.size", kopf.Field("spec.size", filter.From(filter.Absent), filter.To(filter.Absent))), []string{"can never match", "From(Absent)", "To(Absent)"}},

		// Invalid matchers.
		{"HND-07 Equal(nil)", onCreate(kopf.Label("a", filter.Equal(nil))), []string{`Label("a")`, "Equal(nil)", "use Absent"}},
		{"HND-07 From(nil)", onUpdate(kopf.Field("spec.size", filter.From(nil))), []string{`Field("spec.size")`, "nil", "use Absent"}},
		{"HND-07 a nil matcher", onCreate(kopf.Label("a", nil)), []string{`Label("a")`, "a matcher is nil", "remove it"}},
		{"HND-07 a nil matcher within Any", onCreate(kopf.Label("a", filter.Any(filter.Present, nil))), []string{`Label("a")`, "a matcher is nil", "remove it"}},
		{"HND-07 Match(nil)", onCreate(kopf.Field("spec.size", filter.Match(nil))), []string{`Field("spec.size")`, "Match(nil)", "pass a function"}},
		{"HND-07 a value that cannot be encoded", onCreate(kopf.Field("spec.size", filter.Equal(make(chan int)))), []string{`Field("spec.size")`, "Equal", "JSON"}},

		// From and To.
		{"HND-06 From of a label", onUpdate(kopf.Label("a", filter.From("b"))), []string{`Label("a")`, "From and To are only for fields", "Field"}},
		{"HND-06 To of an annotation", onUpdate(kopf.Annotation("a", filter.To("b"))), []string{`Annotation("a")`, "From and To are only for fields", "Field"}},
		{"FLT-08 From of a create handler", onCreate(kopf.Field("spec.size", filter.From(1))), []string{`Thing: OnCreate("h"): Field("spec.size")`, "From and To", "no old state"}},
		{"FLT-08 To of a delete handler", onDelete(kopf.Field("spec.size", filter.To(1))), []string{`Thing: OnDelete("h"): `, "From and To", "no old state"}},
		{"FLT-08 To of a resume handler", onResume(kopf.Field("spec.size", filter.To(1))), []string{`Thing: OnResume("h"): `, "From and To", "no old state"}},
		{"FLT-08 From of an event handler", onEvent(kopf.Field("spec.size", filter.From(1))), []string{`Thing: OnEvent("h"): `, "From and To", "no old state"}},
		{"FLT-08 From of a reconcile handler", onReconcile(kopf.Field("spec.size", filter.From(1))), []string{`Thing: OnReconcile("h"): `, "From and To", "no old state"}},
		{"FLT-08 From of an index", indexBy(kopf.Field("spec.size", filter.From(1))), []string{`Thing: IndexBy("h"): `, "From and To", "no old state"}},
		{"FLT-08 From within To", onUpdate(kopf.Field("spec.size", filter.To(filter.From(1)))), []string{"To(From(Equal(1)))", "cannot be nested"}},
		{"FLT-14 From within Not", onUpdate(kopf.Field("spec.size", filter.Not(filter.From(1)))), []string{"Not(From(Equal(1)))", "around it"}},

		// Owners.
		{"OwnedBy(nil)", onCreate(kopf.OwnedBy(nil)), []string{`Thing: OnCreate("h"): OwnedBy(nil)`, "pass an empty object"}},
		{"OwnedBy a nil pointer", onCreate(kopf.OwnedBy((*corev1.Pod)(nil))), []string{"OwnedBy(nil)", "pass an empty object"}},
		{"OwnedBy an unknown kind", onCreate(kopf.OwnedBy(&unstructured.Unstructured{})), []string{`OnCreate("h"): OwnedBy(*unstructured.Unstructured)`, "scheme"}},

		// Ids.
		{"B-21 the same id for the same field", onUpdate(size).OnField("h", "spec.size", noop), []string{`Thing: OnField("h"): `, `"h/spec.size"`, "used twice", "rename one"}},
		{"B-21 the same id in two views", onCreate().When(func(*kopf.Request[th]) bool { return true }).OnUpdate("h", noop), []string{`Thing: OnUpdate("h"): `, "used twice"}},
		{"B-21 the same id for an event handler", onCreate().OnEvent("h", noop), []string{`Thing: OnEvent("h"): `, "used twice"}},
		{"B-21 an empty id of a handler for a field", newThings().OnField("", "spec.size", noop), []string{`Thing: OnField(""): `, "empty", "set one"}},
		{
			"B-21 an empty id of OnChange",
			kopf.OnChange(newThings(), "", func(th) int { return 0 }, func(context.Context, *kopf.Request[th], int, int) error { return nil }),
			[]string{`Thing: OnChange(""): `, "empty"},
		},

		// After.
		{"After without ids", onCreate(kopf.After()), []string{`Thing: OnCreate("h"): After`, "has no handler ids"}},
		{"After an empty id", onCreate(kopf.After("")), []string{`Thing: OnCreate("h"): After`, "has no handler ids"}},
		{"After an unknown id", onCreate(kopf.After("g")), []string{"Thing: ", `"h"`, `"g"`, "does not refer to a cause handler of the kind", "use one of"}},
		{"After with the path of another field", newThings().OnField("g", "spec.size", noop).OnCreate("h", noop, kopf.After("g/spec.sizes")), []string{`After("g/spec.sizes")`, `use one of ["g/spec.size"]`}},
		{"After an event handler", newThings().OnEvent("spy", noop).OnCreate("h", noop, kopf.After("spy")), []string{"Thing: ", `"h"`, `"spy"`}},
		{"After itself", onCreate(kopf.After("h")), []string{"Thing: ", "circular dependency", "h → h", "remove one After"}},
		{
			"a dependency cycle", newThings().OnCreate("a", noop, kopf.After("b")).OnCreate("b", noop, kopf.After("c")).
				OnCreate("c", noop, kopf.After("a")), []string{"Thing: ", "circular dependency", "a → b → c → a", "remove one After"},
		},
		{
			"a dependency cycle after another handler", newThings().OnCreate("a", noop, kopf.After("b")).
				OnCreate("b", noop, kopf.After("c", "a2")).OnCreate("a2", noop).OnCreate("c", noop, kopf.After("b")),
			[]string{"Thing: ", "circular dependency", "b → c → b"},
		},
		{
			"After one of two fields", newThings().OnField("f", "spec.size", noop).OnField("f", "spec.color", noop).
				OnCreate("h", noop, kopf.After("f")), []string{"Thing: ", `"h"`, `"f"`},
		},

		// Options for other kinds of handlers.
		{"After of an event handler", onEvent(kopf.After("x")), []string{`Thing: OnEvent("h"): After`, "has no effect on OnEvent handlers", "remove it"}},
		{"After of a reconcile handler", onReconcile(kopf.After("x")), []string{`Thing: handler "h": After("x")`, "does not refer to an OnReconcile handler of the kind"}},
		{"After a cause handler", onReconcile(kopf.After("c")).OnCreate("c", noop), []string{`Thing: handler "h": After("c")`, "does not refer to an OnReconcile handler of the kind"}},
		{"After itself, of a reconcile handler", onReconcile(kopf.After("h")), []string{"Thing: ", "circular dependency", "h → h", "remove one After"}},
		{"RetryOnRelatedChange of a reconcile handler", onReconcile(kopf.RetryOnRelatedChange()), []string{`Thing: OnReconcile("h"): RetryOnRelatedChange`, "remove it"}},
		{"EvenIfDeleted of a creation handler", onCreate(kopf.EvenIfDeleted()), []string{`Thing: OnCreate("h"): EvenIfDeleted is only for OnReconcile handlers and resume handlers`}},
		{"Interval of a cause handler", onCreate(kopf.Interval(second)), []string{`Thing: OnCreate("h"): Interval`, "remove it"}},
		{"Interval of an index", indexBy(kopf.Interval(second)), []string{`Thing: IndexBy("h"): Interval`, "remove it"}},
		{"Interval of zero", onReconcile(kopf.Interval(0)), []string{`Thing: OnReconcile("h"): Interval must be positive, got 0s`}},
		{"Optional of an event handler", onEvent(kopf.Optional()), []string{`Thing: OnEvent("h"): Optional`, "delete handlers"}},
		{"Optional of an update handler", onUpdate(kopf.Optional()), []string{`Thing: OnUpdate("h"): Optional`, "delete handlers"}},
		{"Optional of OnField", onField("spec.size", kopf.Optional()), []string{`Thing: OnField("h"): Optional`}},
		{"EvenIfDeleted of an update handler", onUpdate(kopf.EvenIfDeleted()), []string{`Thing: OnUpdate("h"): EvenIfDeleted`, "resume handlers"}},
		{"Backoff and BackoffFunc", onCreate(kopf.Backoff(second), kopf.BackoffFunc(progress.Exponential(second, second))), []string{`Thing: OnCreate("h"): `, "Backoff and BackoffFunc are mutually exclusive", "remove one"}},
		{"Label of an activity", kopf.OnStartup("h", func(context.Context) error { return nil }, kopf.Label("a")), []string{`OnStartup("h"): Label`, "remove it"}},

		// Nil functions.
		{"a nil handler for a field", newThings().OnField("h", "spec.size", nil), []string{`Thing: OnField("h"): `, "nil", "pass a function"}},
		{"a nil event handler", newThings().OnEvent("h", nil), []string{`Thing: OnEvent("h"): `, "nil", "pass a function"}},
		{"a nil reconcile handler", newThings().OnReconcile("h", nil), []string{`Thing: OnReconcile("h"): `, "nil", "pass a function"}},
		{"OnChange without a handler", kopf.OnChange(newThings(), "h", func(th) int { return 0 }, nil), []string{`Thing: OnChange("h"): `, "nil", "pass a function"}},
		{
			"OnChange without a getter",
			kopf.OnChange(newThings(), "h", nil, func(context.Context, *kopf.Request[th], int, int) error { return nil }),
			[]string{`Thing: OnChange("h"): `, "nil", "pass a function"},
		},
		{"When(nil)", onCreate().When(nil), []string{"Thing: When(nil)", "pass a function"}},
		{"Use(nil)", onCreate().Use(nil), []string{"Thing: Use(nil)", "middleware is nil", "remove it"}},
		{
			"Use of a middleware that returns nil",
			newThings().Use(func(kopf.Handler[th]) kopf.Handler[th] { return nil }).OnCreate("h", noop),
			[]string{`Thing: OnCreate("h"): `, "middleware", "nil"},
		},
	} {
		t.Run(test.name, func(t *testing.T) { wantError(t, test.given, test.words) })
	}

	for _, test := range []struct {
		name  string
		given kopf.Option
	}{
		{"HND-05 a field", onUpdate(size)},
		{"HND-05 a top-level field", onUpdate(kopf.Field("spec"))},
		{"HND-05 a field of an embedded struct", onUpdate(kopf.Field("spec.color"))},
		{"HND-05 the Go name of a field without a tag", onUpdate(kopf.Field("spec.Untagged"))},
		{"HND-05 a key of a map", onUpdate(kopf.Field("spec.parts.wheel"))},
		{"HND-05 a field below a key of a map", onUpdate(kopf.Field("spec.parts.wheel.name"))},
		{"HND-05 a list", onUpdate(kopf.Field("spec.list"))},
		{"HND-05 a time", onUpdate(kopf.Field("spec.when"))},
		{"HND-05 a field below a schemaless field", onUpdate(kopf.Field("spec.anything.at.all"))},
		{"HND-05 a field below an interface", onUpdate(kopf.Field("spec.any.thing"))},
		{"HND-05 a label", onUpdate(kopf.Field(`metadata.labels.example\.com/tier`))},
		{"HND-05 the generation", onUpdate(kopf.Field("metadata.generation"))},
		{"ESS-04 a field of the status", onField("status.phase")},
		{"HND-05 any field of a kind without a Go type", kopf.For(kopf.Unstructured(thingGVK)).OnUpdate("h",
			func(context.Context, *kopf.Request[*unstructured.Unstructured]) error { return nil }, kopf.Field("what.ever"))},
		{"HND-05 a label of a metadata-only kind", kopf.For(kopf.Metadata(thingGVK)).OnUpdate("h",
			func(context.Context, *kopf.Request[*metav1.PartialObjectMetadata]) error { return nil }, kopf.Field("metadata.labels.a"))},
		{"FLT-02 several matchers for one key", onCreate(kopf.Label("a", filter.Present, filter.Not(filter.Equal("b")), filter.Match(yes)))},
		{"FLT-02 the same value twice", onCreate(kopf.Label("a", filter.Equal("b"), filter.Equal("b")))},
		{"FLT-02 an empty value", onCreate(kopf.Label("a", filter.Equal("")), kopf.Annotation("a", filter.Equal("all sorts of text")))},
		{"FLT-08 From and To of a field", onField("spec.size", kopf.Field("spec.size", filter.From(filter.Absent), filter.To(1)))},
		{"FLT-08 From and To of an update", onUpdate(kopf.Field("spec.size", filter.From(2), filter.To(1)))},
		{"FLT-08 To of a handler for create and update", newThings().OnCreateOrUpdate("h", noop, kopf.Field("spec.size", filter.To(1)))},
		{"FLT-08 From and To of OnChange", onChange(kopf.Field("spec.size", filter.From(2)))},
		{"HND-13 the same id for two fields", onField("spec.size").OnField("h", "spec.color", noop)},
		{"HND-03 the same id with and without a field", onCreate().OnField("h", "spec.color", noop)},
		{"After the short id of a field handler", onField("spec.size").OnUpdate("g", noop, kopf.After("h"))},
		{"After the full id of a field handler", onField("spec.size").OnUpdate("g", noop, kopf.After("h/spec.size"))},
		{"After a handler that is declared later", newThings().OnCreate("a", noop, kopf.After("b")).OnCreate("b", noop)},
		{"OwnedBy a kind of the scheme", onCreate(kopf.OwnedBy(&appsv1.Deployment{}), kopf.OwnedBy(&corev1.Pod{}))},
		{"OwnedBy a kind without a Go type", onCreate(kopf.OwnedBy(kopf.Unstructured(schema.GroupVersionKind{Group: "x.example.com", Version: "v1", Kind: "X"})))},
		{"a nil option", onCreate(nil)},
		{"a view and its resource", onCreate().When(func(*kopf.Request[th]) bool { return true })},
	} {
		t.Run("valid: "+test.name, func(t *testing.T) { wantValid(t, test.given) })
	}
}

// wantError checks that CheckDeclaration returns exactly one error with the words in this order.
func wantError(t *testing.T, given kopf.Option, words []string) {
	t.Helper()
	wantErrorOf(t, withResource(given), words)
}

// wantErrorOf is wantError for several options.
func wantErrorOf(t *testing.T, given []kopf.Option, words []string) {
	t.Helper()
	op := kopf.New(newManager(), given...)
	err := op.CheckDeclaration()
	if err == nil {
		t.Fatal("CheckDeclaration returned no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 2 || lines[0] != "the operator cannot start:" {
		t.Fatalf("want a heading and one error, got:\n%s", err)
	}
	rest := lines[1]
	for _, word := range words {
		i := strings.Index(rest, word)
		if i < 0 {
			t.Errorf("want %q in the error, got: %s", word, lines[1])
			continue
		}
		rest = rest[i:]
	}
	if again := op.CheckDeclaration(); again == nil || again.Error() != err.Error() {
		t.Errorf("error of the second check = %v, want the same error", again)
	}
}

// wantValid checks that CheckDeclaration returns no error.
func wantValid(t *testing.T, given kopf.Option) {
	t.Helper()
	op := kopf.New(newManager(), given)
	if err := op.CheckDeclaration(); err != nil {
		t.Error(err)
	}
	if err := op.CheckDeclaration(); err != nil {
		t.Errorf("error of the second check = %v, want none", err)
	}
}

// withResource adds a resource to an option that is not a resource.
func withResource(given kopf.Option) []kopf.Option {
	switch given.(type) {
	case resources, *kopf.Resource[*metav1.PartialObjectMetadata]:
		return []kopf.Option{given}
	default:
		return []kopf.Option{given, onCreate()}
	}
}

// B-21: a view belongs to the resource that created it.
func TestNew_ViewsAreOneResource(t *testing.T) {
	all := onCreate()
	view := all.When(func(*kopf.Request[th]) bool { return true }).OnUpdate("g", noop)
	if err := kopf.New(newManager(), all, view, view.When(func(*kopf.Request[th]) bool { return false })).CheckDeclaration(); err != nil {
		t.Error(err)
	}
	view.OnDelete("bad:id", noop)
	if err := kopf.New(newManager(), all).CheckDeclaration(); err == nil || !strings.Contains(err.Error(), `OnDelete("bad:id")`) {
		t.Errorf("error = %v, want an error that names the view's handler", err)
	}
}
