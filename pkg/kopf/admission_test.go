package kopf_test

import (
	"context"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

func agree(context.Context, *webhooks.Request[th]) error { return nil }

// judged and changed are resources with one admission handler with options.
func judged(opts ...webhooks.Option) resources  { return things().Validate("h", agree, opts...) }
func changed(opts ...webhooks.Option) resources { return things().Mutate("h", agree, opts...) }

// onlyAdmitted is a resource with options that has nothing but an admission handler.
func onlyAdmitted(opts ...kopf.ResourceOption) *kopf.Resource[*unstructured.Unstructured] {
	return kopf.For(kopf.Unstructured(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}), opts...).
		Validate("h", func(context.Context, *webhooks.Request[*unstructured.Unstructured]) error { return nil })
}

// hosting is a manager with a webhook server, and without an API server: a declaration asks for none.
func hosting(t *testing.T) manager.Manager {
	t.Helper()
	mgr, err := manager.New(&rest.Config{Host: "https://nowhere.example.com"}, manager.Options{
		Scheme: manage().GetScheme(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// managed are options with which the operator writes configurations.
func managed(change func(*webhooks.Options)) kopf.Option {
	options := webhooks.Options{
		Name: "things.example.com", Configurations: webhooks.Managed, Certificates: webhooks.SelfManaged{}, Namespace: "own",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://localhost:9443")},
	}
	if change != nil {
		change(&options)
	}
	return kopf.WithWebhooks(options)
}

// Each mistake of admission handlers is told in one line, as all others are. HND-08: operations that are none.
func TestMistakesOfAdmissionHandlers(t *testing.T) {
	always := func(*kopf.Request[th]) bool { return true }
	const where = "the admission handlers: "
	for _, test := range []struct {
		name  string
		given []kopf.Option
		words []string // in this order
	}{
		// What is declared.
		{"a view", []kopf.Option{things().When(always).Validate("h", agree)}, []string{`Thing: Validate("h"): the When of a view`, "add the handler to the resource itself", "webhooks.MatchConditions"}},
		{"a mutating one of a view", []kopf.Option{things().When(always).Mutate("h", agree)}, []string{`Thing: Mutate("h"): the When of a view`, "webhooks.Label"}},
		{"no handler", []kopf.Option{things().Validate("h", nil)}, []string{where, `Thing: Validate("h"): the handler is nil`, "pass a function"}},
		{"no mutating handler", []kopf.Option{things().Mutate("h", nil)}, []string{where, `Thing: Mutate("h"): the handler is nil`, "pass a function"}},
		{"no id", []kopf.Option{things().Validate("", agree)}, []string{where, `Thing: Validate(""): the id is empty`, "set one"}},
		{"an id that is no path", []kopf.Option{things().Validate("a//b", agree)}, []string{where, `Thing: Validate("a//b"): the id is not a valid path`, "remove empty parts"}},
		{"HND-08 no operations", []kopf.Option{judged(webhooks.Operations())}, []string{where, `Thing: Validate("h"): Operations is empty`, "list operations"}},
		{"HND-08 no operations of a mutating one", []kopf.Option{changed(webhooks.Operations())}, []string{where, `Thing: Mutate("h"): Operations is empty`}},
		{"an unknown operation", []kopf.Option{judged(webhooks.Operations("PATCH"))}, []string{where, `unknown operation "PATCH"`, "use CREATE, UPDATE"}},
		{"a long timeout", []kopf.Option{judged(webhooks.TimeoutSeconds(31))}, []string{where, `Thing: Validate("h"): TimeoutSeconds must be from 1 to 30, got 31`}},
		{"no timeout", []kopf.Option{changed(webhooks.TimeoutSeconds(0))}, []string{where, `Thing: Mutate("h"): TimeoutSeconds must be from 1 to 30, got 0`}},
		{"calling a validating one again", []kopf.Option{judged(webhooks.ReinvocationPolicy("IfNeeded"))}, []string{where, "ReinvocationPolicy is only for mutating handlers", "remove it"}},
		{"one id twice", []kopf.Option{judged().Validate("h", agree)}, []string{where, `Thing: Validate("h")`, `the handler Thing: Validate("h") exists already`, "rename one"}},
		{"one name twice", []kopf.Option{things().Validate("a_b", agree).Validate("a-b", agree), managed(nil)}, []string{where, `Thing: Validate("a-b")`, `"a-b"`, `the name of Thing: Validate("a_b")`, "rename one"}},

		// What is said of a kind that nobody watches.
		{"conditions", []kopf.Option{onlyAdmitted(kopf.WithConditions("Ready"))}, []string{"Gadget: ", "WithConditions means nothing", "only admission handlers", "add another handler", "leave it out"}},
		{"a root", []kopf.Option{onlyAdmitted(kopf.WithRootCondition(conditions.Root{Type: "Fine", Of: []string{"Ready"}}))}, []string{"Gadget: ", "WithRootCondition means nothing"}},
		{"concurrency", []kopf.Option{onlyAdmitted(kopf.WithMaxConcurrentReconciles(2))}, []string{"Gadget: ", "WithMaxConcurrentReconciles means nothing"}},
		{"predicates", []kopf.Option{onlyAdmitted(kopf.WithPredicates(predicate.GenerationChangedPredicate{}))}, []string{"Gadget: ", "WithPredicates means nothing"}},
		{"options of a controller", []kopf.Option{onlyAdmitted(kopf.WithControllerOptions(controller.Options{RecoverPanic: new(true)}))}, []string{"Gadget: ", "WithControllerOptions means nothing"}},
		{"results", []kopf.Option{onlyAdmitted(kopf.WithResults("status.results"))}, []string{"Gadget: ", "WithResults means nothing"}},

		// How it is served.
		{"nobody to tell of certificates", []kopf.Option{judged(), kopf.WithWebhooks(webhooks.Options{Certificates: webhooks.SelfManaged{}, Namespace: "own"})}, []string{where, "SelfManaged certificates", "set Configurations"}},
		{"ADM-40 no address", []kopf.Option{judged(), managed(func(o *webhooks.Options) { o.ClientConfig.URL = nil })}, []string{where, "ClientConfig is empty", "set Service or URL"}},
		{"no name", []kopf.Option{judged(), managed(func(o *webhooks.Options) { o.Name = "" })}, []string{where, "the Name of the webhook configurations is empty", "set it"}},
		{"options without handlers", []kopf.Option{created(), managed(func(o *webhooks.Options) { o.Name = "" })}, []string{where, "the Name of the webhook configurations is empty"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := kopf.New(hosting(t), test.given...).CheckDeclaration()
			if err == nil {
				t.Fatal("it is valid")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != 2 || lines[0] != "the operator cannot start:" {
				t.Fatalf("want a heading and one mistake, got:\n%s", err)
			}
			rest := lines[1]
			for _, word := range test.words {
				i := strings.Index(rest, word)
				if i < 0 {
					t.Fatalf("%q is missing in: %s", word, lines[1])
				}
				rest = rest[i:]
			}
		})
	}

	for _, test := range []struct {
		name  string
		given []kopf.Option
	}{
		{"a handler alone", []kopf.Option{judged()}},
		{"both, with one id", []kopf.Option{judged().Mutate("h", agree)}},
		{"beside others, with the same id", []kopf.Option{judged().OnCreate("h", nothing), managed(nil)}},
		{"conditions, with another handler", []kopf.Option{onlyAdmitted(kopf.WithConditions("Ready")).
			OnEvent("e", func(context.Context, *kopf.Request[*unstructured.Unstructured]) error { return nil })}},
		{"before a view", []kopf.Option{judged().When(always).OnCreate("h", nothing)}},
		{"with all options", []kopf.Option{managed(nil), changed(webhooks.Operations("CREATE"), webhooks.Subresource("status"),
			webhooks.Label("a"), webhooks.TimeoutSeconds(30), webhooks.ReinvocationPolicy("IfNeeded"))}},
		{"options without handlers", []kopf.Option{created(), managed(nil)}},
	} {
		t.Run("no mistake: "+test.name, func(t *testing.T) {
			if err := kopf.New(hosting(t), test.given...).CheckDeclaration(); err != nil {
				t.Error(err)
			}
		})
	}
}

// All mistakes are told at once, those of other handlers, too.
func TestMistakesOfAdmissionHandlersAmongOthers(t *testing.T) {
	err := kopf.New(hosting(t), judged(webhooks.TimeoutSeconds(31), webhooks.Operations()).Mutate("", nil).OnCreate("c", nil)).CheckDeclaration()
	if err == nil {
		t.Fatal("it is valid")
	}
	equal(t, "mistakes", err.Error(), `the operator cannot start:
the admission handlers: Thing: Validate("h"): TimeoutSeconds must be from 1 to 30, got 31
Thing: Validate("h"): Operations is empty: list operations or remove the option
Thing: Mutate(""): the handler is nil: pass a function
Thing: Mutate(""): the id is empty: set one
Thing: OnCreate("c"): the handler is nil: give it a function`)
}

// An operator without a manager, or a resource without an object, is a mistake of its own, and no panic.
func TestAdmissionHandlersOfNothing(t *testing.T) {
	if err := kopf.New(nil, judged()).CheckDeclaration(); err == nil || !strings.Contains(err.Error(), "the manager is nil") {
		t.Errorf("without a manager: %v", err)
	}
	if err := kopf.New(hosting(t), kopf.For(th(nil)).Validate("h", agree)).CheckDeclaration(); err == nil || !strings.Contains(err.Error(), "For(nil)") {
		t.Errorf("without an object: %v", err)
	}
}
