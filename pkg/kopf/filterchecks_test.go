package kopf_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

// annotationField returns the path of an annotation.
func annotationField(key string) string {
	return "metadata.annotations." + strings.ReplaceAll(key, ".", `\.`)
}

// Filters of cause handlers on fields that the operator stores its data in, or that the baseline ignores, are errors. The same filters of other handlers
// are valid, because they test the present object.
func TestCheckDeclaration_FieldsThatAreNotTracked(t *testing.T) {
	const alias = "product.example.com/alias"
	prefixed := kopf.WithProgress(progress.Annotations("product.example.com"))
	ignoring := kopf.WithBaseline(progress.IgnoringFields(progress.AnnotationBaseline(""), "spec.replicas", "spec.parts", "metadata.labels.tier"))
	untyped := func() *kopf.Resource[*unstructured.Unstructured] { return kopf.For(kopf.Unstructured(thingGVK)) }
	for name, test := range map[string]struct {
		given []kopf.Option
		words []string
	}{
		"an annotation of the store": {
			[]kopf.Option{onField(annotationField(alias)), prefixed},
			[]string{`Thing: OnField("h"): Field("metadata.annotations.product`, "can never match, because the operator stores its own data in annotations with the prefix product.example.com: use an annotation with another prefix, or give WithProgress"},
		},
		"an annotation of the store, for a creation": {[]kopf.Option{onCreate(kopf.Field(annotationField(alias))), prefixed}, []string{"can never match"}},
		"an annotation of the default store":         {[]kopf.Option{onField(annotationField("kopf.zalando.org/alias"))}, []string{"the prefix kopf.zalando.org"}},
		"an annotation of one of two stores": {
			[]kopf.Option{onField(annotationField(alias)), kopf.WithProgress(progress.Multi(progress.Smart(), progress.AnnotationsV2("product.example.com")))},
			[]string{"the prefix product.example.com"},
		},
		"an annotation of the store of another handler": {
			[]kopf.Option{onField(annotationField(alias)).OnCreate("c", noop, kopf.StoreIn(progress.Annotations("product.example.com")))},
			[]string{`OnField("h")`, "the prefix product.example.com"},
		},
		"the annotation of the baseline": {
			[]kopf.Option{onField(annotationField("product.example.com/last-handled-configuration")), kopf.WithBaseline(progress.AnnotationBaseline("product.example.com"))},
			[]string{"can never match, because the baseline of the operator ignores the field"},
		},
		"a filter for an annotation of the store": {
			[]kopf.Option{onUpdate(kopf.Annotation(alias, filter.Equal("a"))), prefixed},
			[]string{`OnUpdate("h"): Annotation("product.example.com/alias"): changes of the annotation do not count`, "use an annotation with another prefix"},
		},
		"a field of the status store": {
			[]kopf.Option{untyped().OnField("h", "status.progress.x", noopFor[*unstructured.Unstructured]), kopf.WithProgress(progress.Status("status.progress"))},
			[]string{`Field("status.progress.x"): can never match, because the operator stores its own data in the field`},
		},
		"an ignored field":                 {[]kopf.Option{onField("spec.replicas"), ignoring}, []string{`OnField("h"): Field("spec.replicas"): can never match`, "remove the field from IgnoringFields"}},
		"an ignored field with a matcher":  {[]kopf.Option{onCreate(kopf.Field("spec.replicas", filter.Equal(3))), ignoring}, []string{`OnCreate("h"): Field("spec.replicas"): can never match`}},
		"a field below an ignored one":     {[]kopf.Option{onField("spec.parts.wheel.name"), ignoring}, []string{`Field("spec.parts.wheel.name"): can never match`}},
		"an ignored label":                 {[]kopf.Option{onField("metadata.labels.tier"), ignoring}, []string{`Field("metadata.labels.tier"): can never match`}},
		"an ignored field of two baseline": {[]kopf.Option{onField("spec.replicas"), kopf.WithBaseline(progress.MultiBaseline(progress.AnnotationBaseline(""), progress.IgnoringFields(progress.AnnotationBaseline("a.b"), "spec.replicas")))}, []string{`Field("spec.replicas"): can never match`}},
		"an ignored field of OnChange":     {[]kopf.Option{onChange(kopf.Field("spec.replicas")), ignoring}, []string{`OnChange("h"): Field("spec.replicas"): can never match`}},
		"the label of a sharder":           {[]kopf.Option{onField("metadata.labels." + strings.ReplaceAll(sharding.ShardLabel("things"), ".", `\.`))}, []string{"can never match: the label belongs to the sharder"}},

		"the kind":                       {[]kopf.Option{onField("kind")}, []string{`OnField("h"): Field("kind"): can never match`, "remove the filter"}},
		"the version":                    {[]kopf.Option{onDelete(kopf.Field("apiVersion", filter.Equal("v1")))}, []string{`OnDelete("h"): Field("apiVersion"): can never match`}},
		"an update of the name":          {[]kopf.Option{onUpdate(kopf.Field("metadata.name"))}, []string{`OnUpdate("h"): Field("metadata.name"): can never match, because no update changes the field`}},
		"an update of the uid":           {[]kopf.Option{onUpdate(kopf.Field("metadata.uid"))}, []string{"no update changes the field"}},
		"an update to a deletion":        {[]kopf.Option{onUpdate(kopf.Field("metadata.deletionTimestamp", filter.To(filter.Present)))}, []string{"no update changes the field: use a handler for creations or deletions"}},
		"all metadata":                   {[]kopf.Option{onField("metadata")}, []string{`OnField("h"): Field("metadata"): each write changes a field of the metadata`, "name a field, such as metadata.labels"}},
		"the generation of a Deployment": {[]kopf.Option{kopf.For(&appsv1.Deployment{}).OnField("h", "metadata.generation", noopFor[*appsv1.Deployment])}, []string{`Deployment: OnField("h"): Field("metadata.generation"): each write changes this field`, `use Field("spec")`}},
		"the managed fields":             {[]kopf.Option{onUpdate(kopf.Field("metadata.managedFields"))}, []string{"each write changes this field", "use OnEvent"}},
		"a label outside of the watch":   {[]kopf.Option{onCreate(kopf.Label("tier", filter.Equal("silver"))), kopf.WithWatchSelector("tier=gold")}, []string{`Thing: OnCreate("h"): Label("tier") can never match: WithWatchSelector("tier=gold") and Equal(silver) are mutually exclusive`}},
		"a label that the watch excludes": {
			[]kopf.Option{onReconcile(kopf.Label("developer")), kopf.WithWatchSelector("!developer,tier in (a, b)")},
			[]string{`OnReconcile("h"): Label("developer") can never match: WithWatchSelector("!developer,tier in (a,b)") and Present are mutually exclusive`},
		},
		"no label that the watch requires": {[]kopf.Option{onEvent(kopf.Label("tier", filter.Absent)), kopf.WithWatchSelector("tier")}, []string{`OnEvent("h"): Label("tier") can never match`}},
		"a label outside of the kind's watch": {
			[]kopf.Option{kopf.For(&corev1.Secret{}, kopf.WatchOnly(client.MatchingLabels{"tier": "gold"})).OnCreate("h", noopFor[*corev1.Secret], kopf.Label("tier", filter.Absent))},
			[]string{`Secret: OnCreate("h"): Label("tier") can never match: WatchOnly("tier=gold") and Absent are mutually exclusive`},
		},
		"an index outside of the watch": {[]kopf.Option{indexBy(kopf.Label("tier", filter.Equal("c"))), kopf.WithWatchSelector("tier in (a, b)")}, []string{`IndexBy("h"): Label("tier") can never match`}},
		"a timer outside of the watch":  {[]kopf.Option{timer(1e9, kopf.Label("tier", filter.Equal("a"))), kopf.WithWatchSelector("tier notin (a, b)")}, []string{`Timer("h"): Label("tier") can never match`}},
	} {
		t.Run(name, func(t *testing.T) { wantErrorOf(t, test.given, test.words) })
	}

	for name, given := range map[string][]kopf.Option{
		"the annotations of another operator":        {onField(annotationField("kopf.zalando.org/x")), prefixed},
		"the annotation of kubectl apply":            {onField(annotationField("kubectl.kubernetes.io/last-applied-configuration"))},
		"the annotation of kubectl as a filter":      {onCreate(kopf.Annotation("kubectl.kubernetes.io/last-applied-configuration"))},
		"an annotation of the store for OnEvent":     {onEvent(kopf.Field(annotationField(alias)), kopf.Annotation(alias)), prefixed},
		"an annotation of the store for OnReconcile": {onReconcile(kopf.Annotation(alias)), prefixed},
		"an annotation of the store for a daemon":    {daemon(kopf.Field(annotationField(alias))), prefixed},
		"an annotation of the store for an index":    {indexBy(kopf.Annotation(alias)), prefixed},
		"an annotation with a similar prefix":        {onField(annotationField("sub.product.example.com/alias")), prefixed},
		"an ignored field for a timer":               {timer(1e9, kopf.Field("spec.replicas")), ignoring},
		"a field with an ignored part":               {onField("spec"), ignoring},
		"a field next to an ignored one":             {onField("spec.size"), ignoring},
		"an ignored label as a filter":               {onUpdate(kopf.Label("tier", filter.Equal("gold"))), ignoring},
		"the creation of an object with a name":      {onCreate(kopf.Field("metadata.name", filter.Equal("main")))},
		"any change of an object with a name":        {newThings().OnCreateOrUpdate("h", noop, kopf.Field("metadata.name", filter.Equal("main")))},
		"the owners":                                 {onField("metadata.ownerReferences")},
		"a label within the watch":                   {onCreate(kopf.Label("tier", filter.Equal("a")), kopf.Label("other")), kopf.WithWatchSelector("tier in (a, b)")},
		"a number within the watch":                  {onCreate(kopf.Label("tier", filter.Equal("3"))), kopf.WithWatchSelector("tier>2")},
		"a function":                                 {onCreate(kopf.Label("tier", filter.Match(func(any) bool { return false }))), kopf.WithWatchSelector("tier=a")},
	} {
		t.Run("valid: "+name, func(t *testing.T) {
			if err := kopf.New(newManager(), given...).CheckDeclaration(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A field of IgnoringFields that no kind has is an error.
func TestCheckDeclaration_IgnoredFields(t *testing.T) {
	baseline := func(paths ...string) kopf.Option {
		return kopf.WithBaseline(progress.MultiBaseline(progress.IgnoringFields(progress.AnnotationBaseline(""), paths...), progress.AnnotationBaseline("example.com")))
	}
	wantErrorOf(t, []kopf.Option{onCreate(), baseline("spec.size", "spec.replcas")},
		[]string{"WithBaseline: IgnoringFields: no kind has the field spec.replcas: correct the path; did you mean spec.replicas?"})
	for name, given := range map[string][]kopf.Option{
		"a field of another kind":  {onCreate(), baseline("data"), kopf.For(&corev1.ConfigMap{}).OnCreate("c", noopFor[configMap])},
		"labels":                   {onCreate(), baseline("metadata.labels.example.com/tier", "metadata.annotations.a.b/c")},
		"a kind without a Go type": {onCreate(), baseline("spec.any"), kopf.For(kopf.Unstructured(thingGVK.GroupVersion().WithKind("Other"))).OnCreate("c", noopFor[*unstructured.Unstructured])},
	} {
		t.Run("valid: "+name, func(t *testing.T) {
			if err := kopf.New(newManager(), given...).CheckDeclaration(); err != nil {
				t.Error(err)
			}
		})
	}
}

// All mistakes are reported together, also those of different handlers.
func TestCheckDeclaration_ReportsAllFiltersThatNeverMatch(t *testing.T) {
	err := kopf.New(newManager(),
		newThings().
			OnField("alias", annotationField("product.example.com/alias"), noop).
			OnUpdate("replicas", noop, kopf.Field("spec.replicas"), kopf.Annotation("product.example.com/a"), kopf.Annotation("product.example.com/b")).
			OnEvent("silver", noop, kopf.Label("tier", filter.Equal("silver"))),
		kopf.WithProgress(progress.Annotations("product.example.com")),
		kopf.WithBaseline(progress.IgnoringFields(progress.AnnotationBaseline("product.example.com"), "spec.replicas")),
		kopf.WithWatchSelector("tier=gold"),
	).CheckDeclaration()
	if err == nil {
		t.Fatal("CheckDeclaration returned no error")
	}
	for _, want := range []string{
		`OnField("alias"): Field(`, `OnUpdate("replicas"): Field("spec.replicas")`, `OnUpdate("replicas"): Annotation("product.example.com/a")`,
		`OnUpdate("replicas"): Annotation("product.example.com/b")`, `OnEvent("silver"): Label("tier")`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in the error, got:\n%s", want, err)
		}
	}
	if got := strings.Count(err.Error(), "\n"); got != 5 {
		t.Errorf("%d errors, want 5:\n%s", got, err)
	}
}

// A handler of a field can react to annotations that other handlers ignore: those of kubectl apply and of other operators.
func TestOnField_AnnotationsOfOthers(t *testing.T) {
	for _, key := range []string{"kubectl.kubernetes.io/last-applied-configuration", "kopf.zalando.org/x", "example.com/kopf-managed", "example.com/x"} {
		t.Run(key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
				var changes []string
				operator := cluster.Run(t,
					kopf.WithProgress(progress.Annotations("product.example.com")), kopf.WithBaseline(progress.AnnotationBaseline("product.example.com")),
					kopf.For(&corev1.ConfigMap{}).
						OnUpdate("other", func(context.Context, *kopf.Request[configMap]) error { return nil }, kopf.Field("data")).
						OnField("f", annotationField(key), func(_ context.Context, req *kopf.Request[configMap]) error {
							_, now := req.Field()
							changes = append(changes, now.(string))
							return nil
						}))
				operator.RunUntilQuiet(t)
				for _, value := range []string{"a", "b"} {
					kopftest.Edit(t, cluster, newConfigMap("one"), func(obj configMap) { metav1.SetMetaDataAnnotation(&obj.ObjectMeta, key, value) })
					operator.RunUntilQuiet(t)
				}
				if want := []string{"a", "b"}; !slices.Equal(changes, want) {
					t.Errorf("changes = %q, want %q", changes, want)
				}
			})
		})
	}
}

// A sub-handler with a field that the last-handled configuration does not contain makes its parent fail, instead of never being called.
func TestSub_FieldThatIsNotTracked(t *testing.T) {
	for path, want := range map[string]string{
		"status.phase":               `Field("status.phase") can never match`,
		"metadata.generation":        `Field("metadata.generation") can never match`,
		"metadata.labels.a":          "",
		"metadata.annotations":       "",
		"spec.nodeName":              "",
		"status.message":             "", // another handler has this field
		"spec.activeDeadlineSeconds": `Field("spec.activeDeadlineSeconds") can never match`,
	} {
		t.Run(path, func(t *testing.T) {
			pod := &corev1.Pod{}
			pod.Name, pod.Namespace = "one", "default"
			noop := noopFor[*corev1.Pod]
			report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{pod}},
				kopf.WithBaseline(progress.IgnoringFields(progress.AnnotationBaseline(""), "spec.activeDeadlineSeconds")),
				kopf.For(&corev1.Pod{}).
					OnField("message", "status.message", noop).
					OnCreate("h", func(_ context.Context, req *kopf.Request[*corev1.Pod]) error {
						req.Sub("s", noop, kopf.Field(path))
						return nil
					}))
			var failures []string
			for _, event := range report.Events {
				failures = append(failures, event.String())
			}
			if got := strings.Join(failures, "\n"); want == "" && got != "" || !strings.Contains(got, want) {
				t.Errorf("Events %q, want %q", got, want)
			}
		})
	}
}
