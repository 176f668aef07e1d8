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

func allow(context.Context, *webhooks.Request[th]) error { return nil }

// validate and mutate return a resource with one admission handler.
func validate(opts ...webhooks.Option) resources { return newThings().Validate("h", allow, opts...) }
func mutate(opts ...webhooks.Option) resources   { return newThings().Mutate("h", allow, opts...) }

// onlyValidate returns a resource with only an admission handler.
func onlyValidate(opts ...kopf.ResourceOption) *kopf.Resource[*unstructured.Unstructured] {
	return kopf.For(kopf.Unstructured(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}), opts...).
		Validate("h", func(context.Context, *webhooks.Request[*unstructured.Unstructured]) error { return nil })
}

// newWebhookManager returns a manager with a webhook server. It has no API server, because CheckDeclaration sends no
// requests.
func newWebhookManager(t *testing.T) manager.Manager {
	t.Helper()
	mgr, err := manager.New(&rest.Config{Host: "https://nowhere.example.com"}, manager.Options{
		Scheme: newManager().GetScheme(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// withManagedWebhooks returns an option that makes the operator manage its webhook configurations.
func withManagedWebhooks(change func(*webhooks.Options)) kopf.Option {
	options := webhooks.Options{
		Name: "things.example.com", Configurations: webhooks.Managed, Certificates: webhooks.SelfManaged{}, Namespace: "own",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://localhost:9443")},
	}
	if change != nil {
		change(&options)
	}
	return kopf.WithWebhooks(options)
}

// Each test case has one error in one line. HND-08: invalid operations are errors.
func TestCheckDeclaration_AdmissionHandlers(t *testing.T) {
	always := func(*kopf.Request[th]) bool { return true }
	const where = "setting up the admission handlers: "
	for _, test := range []struct {
		name  string
		given []kopf.Option
		words []string // words of the error, in this order
	}{
		// Handlers.
		{"a handler in a view", []kopf.Option{newThings().When(always).Validate("h", allow)}, []string{`Thing: Validate("h"): the API server cannot evaluate the function of When`, "add the handler to the resource itself", "webhooks.MatchConditions"}},
		{"a mutating handler in a view", []kopf.Option{newThings().When(always).Mutate("h", allow)}, []string{`Thing: Mutate("h"): the API server cannot evaluate the function of When`, "webhooks.Label"}},
		{"a nil handler", []kopf.Option{newThings().Validate("h", nil)}, []string{where, `Thing: Validate("h"): the handler is nil`, "pass a function"}},
		{"a nil mutating handler", []kopf.Option{newThings().Mutate("h", nil)}, []string{where, `Thing: Mutate("h"): the handler is nil`, "pass a function"}},
		{"no id", []kopf.Option{newThings().Validate("", allow)}, []string{where, `Thing: Validate(""): the id is empty`, "set one"}},
		{"an id that is not a path", []kopf.Option{newThings().Validate("a//b", allow)}, []string{where, `Thing: Validate("a//b"): the id is not a valid path`, "remove empty parts"}},
		{"HND-08 no operations", []kopf.Option{validate(webhooks.Operations())}, []string{where, `Thing: Validate("h"): Operations is empty`, "list operations"}},
		{"HND-08 no operations of a mutating handler", []kopf.Option{mutate(webhooks.Operations())}, []string{where, `Thing: Mutate("h"): Operations is empty`}},
		{"an unknown operation", []kopf.Option{validate(webhooks.Operations("PATCH"))}, []string{where, `unknown operation "PATCH"`, "use CREATE, UPDATE"}},
		{"a timeout above the limit", []kopf.Option{validate(webhooks.TimeoutSeconds(31))}, []string{where, `Thing: Validate("h"): TimeoutSeconds must be from 1 to 30, got 31`}},
		{"a timeout of zero", []kopf.Option{mutate(webhooks.TimeoutSeconds(0))}, []string{where, `Thing: Mutate("h"): TimeoutSeconds must be from 1 to 30, got 0`}},
		{"a reinvocation policy of a validating handler", []kopf.Option{validate(webhooks.ReinvocationPolicy("IfNeeded"))}, []string{where, "ReinvocationPolicy is only for mutating handlers", "remove it"}},
		{"a duplicate id", []kopf.Option{validate().Validate("h", allow)}, []string{where, `Thing: Validate("h")`, `the handler Thing: Validate("h") exists already`, "rename one"}},
		{"a duplicate name", []kopf.Option{newThings().Validate("a_b", allow).Validate("a-b", allow), withManagedWebhooks(nil)}, []string{where, `Thing: Validate("a-b")`, `"a-b"`, `the name of Thing: Validate("a_b")`, "rename one"}},

		// Options without effect.
		{"WithConditions", []kopf.Option{onlyValidate(kopf.WithConditions("Ready"))}, []string{"Gadget: ", "WithConditions has no effect", "only admission handlers", "add another handler", "remove the option"}},
		{"WithRootCondition", []kopf.Option{onlyValidate(kopf.WithRootCondition(conditions.Root{Type: "Fine", Of: []string{"Ready"}}))}, []string{"Gadget: ", "WithRootCondition has no effect"}},
		{"WithPredicates", []kopf.Option{onlyValidate(kopf.WithPredicates(predicate.GenerationChangedPredicate{}))}, []string{"Gadget: ", "WithPredicates has no effect"}},
		{"WithControllerOptions", []kopf.Option{onlyValidate(kopf.WithControllerOptions(controller.Options{RecoverPanic: new(true)}))}, []string{"Gadget: ", "WithControllerOptions has no effect"}},
		{"WithResults", []kopf.Option{onlyValidate(kopf.WithResults("status.results"))}, []string{"Gadget: ", "WithResults has no effect"}},

		// Options of the webhook server.
		{"SelfManaged certificates without a configuration", []kopf.Option{validate(), kopf.WithWebhooks(webhooks.Options{Certificates: webhooks.SelfManaged{}, Namespace: "own"})}, []string{where, "SelfManaged certificates", "set Configurations"}},
		{"ADM-40 no address", []kopf.Option{validate(), withManagedWebhooks(func(o *webhooks.Options) { o.ClientConfig.URL = nil })}, []string{where, "ClientConfig is empty", "set Service or URL"}},
		{"no name", []kopf.Option{validate(), withManagedWebhooks(func(o *webhooks.Options) { o.Name = "" })}, []string{where, "the Name of the webhook configurations is empty", "set it"}},
		{"options without handlers", []kopf.Option{onCreate(), withManagedWebhooks(func(o *webhooks.Options) { o.Name = "" })}, []string{where, "the Name of the webhook configurations is empty"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := kopf.New(newWebhookManager(t), test.given...).CheckDeclaration()
			if err == nil {
				t.Fatal("CheckDeclaration returned no error")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != 2 || lines[0] != "the operator cannot start:" {
				t.Fatalf("want a heading and one error, got:\n%s", err)
			}
			rest := lines[1]
			for _, word := range test.words {
				i := strings.Index(rest, word)
				if i < 0 {
					t.Fatalf("want %q in the error, got: %s", word, lines[1])
				}
				rest = rest[i:]
			}
		})
	}

	for _, test := range []struct {
		name  string
		given []kopf.Option
	}{
		{"one handler", []kopf.Option{validate()}},
		{"a validating and a mutating handler with the same id", []kopf.Option{validate().Mutate("h", allow)}},
		{"an admission handler and a cause handler with the same id", []kopf.Option{validate().OnCreate("h", noop), withManagedWebhooks(nil)}},
		{"WithConditions with another handler", []kopf.Option{onlyValidate(kopf.WithConditions("Ready")).
			OnEvent("e", func(context.Context, *kopf.Request[*unstructured.Unstructured]) error { return nil })}},
		{"an admission handler before a view", []kopf.Option{validate().When(always).OnCreate("h", noop)}},
		{"all options", []kopf.Option{withManagedWebhooks(nil), mutate(webhooks.Operations("CREATE"), webhooks.Subresource("status"),
			webhooks.Label("a"), webhooks.TimeoutSeconds(30), webhooks.ReinvocationPolicy("IfNeeded"))}},
		{"options without handlers", []kopf.Option{onCreate(), withManagedWebhooks(nil)}},
	} {
		t.Run("valid: "+test.name, func(t *testing.T) {
			if err := kopf.New(newWebhookManager(t), test.given...).CheckDeclaration(); err != nil {
				t.Error(err)
			}
		})
	}
}

// CheckDeclaration returns all errors together, including the errors of other handlers.
func TestCheckDeclaration_AllErrorsOfAdmissionHandlers(t *testing.T) {
	err := kopf.New(newWebhookManager(t), validate(webhooks.TimeoutSeconds(31), webhooks.Operations()).Mutate("", nil).OnCreate("c", nil)).CheckDeclaration()
	if err == nil {
		t.Fatal("CheckDeclaration returned no error")
	}
	equal(t, "errors", err.Error(), `the operator cannot start:
setting up the admission handlers: Thing: Validate("h"): TimeoutSeconds must be from 1 to 30, got 31
Thing: Validate("h"): Operations is empty: list operations or remove the option
Thing: Mutate(""): the handler is nil: pass a function
Thing: Mutate(""): the id is empty: set one
Thing: OnCreate("c"): the handler is nil: pass a function`)
}

// CheckDeclaration returns an error for a missing manager or object. It does not panic.
func TestCheckDeclaration_AdmissionHandlersWithoutManagerOrObject(t *testing.T) {
	if err := kopf.New(nil, validate()).CheckDeclaration(); err == nil || !strings.Contains(err.Error(), "the manager is nil") {
		t.Errorf("error without a manager = %v, want an error about the manager", err)
	}
	if err := kopf.New(newWebhookManager(t), kopf.For(th(nil)).Validate("h", allow)).CheckDeclaration(); err == nil || !strings.Contains(err.Error(), "For(nil)") {
		t.Errorf("error without an object = %v, want an error about For(nil)", err)
	}
}
