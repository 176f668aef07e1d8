package webhooks_test

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// Check returns all errors of a declaration. HND-08: it rejects invalid operations.
func TestHook_Check(t *testing.T) {
	condition := func(name, expression string) webhooks.Option {
		return webhooks.MatchConditions(admissionregistrationv1.MatchCondition{Name: name, Expression: expression})
	}
	for want, opts := range map[string][]webhooks.Option{
		"Operations is empty":              {webhooks.Operations()},
		`unknown operation "PATCH"`:        {webhooks.Operations("PATCH")},
		"contains CREATE twice":            {webhooks.Operations("CREATE", "CREATE")},
		"contains * and others":            {webhooks.Operations("*", "CREATE")},
		"Subresource is empty":             {webhooks.Subresource("")},
		`Subresource("widgets/status") is`: {webhooks.Subresource("widgets/status")},
		`Plural("Widgets") is invalid`:     {webhooks.Plural("Widgets")},
		"from 1 to 30, got 31":             {webhooks.TimeoutSeconds(31)},
		"from 1 to 30, got 0":              {webhooks.TimeoutSeconds(0)},
		"check DryRun":                     {webhooks.SideEffects("Some")},
		"use Fail or Ignore":               {webhooks.FailurePolicy("Maybe")},
		"use Never or IfNeeded":            {webhooks.ReinvocationPolicy("Always")},
		"only for mutating handlers":       {webhooks.ReinvocationPolicy("Never")},
		"Label or NoLabel can never match": {webhooks.Label("a b")},
		`can never match: the value "b c" of "a" is not valid: it contains ' '`: {webhooks.Label("a", "b c")},
		"NamespaceSelector":             {webhooks.NamespaceSelector(&metav1.LabelSelector{MatchLabels: map[string]string{"a b": ""}})},
		"Namespaces is empty":           {webhooks.Namespaces()},
		`namespace "A" is invalid`:      {webhooks.Namespaces("A")},
		"Namespaces and EveryNamespace": {webhooks.Namespaces("a"), webhooks.EveryNamespace()},
		`the name "a b" is invalid`:     {condition("a b", "true")},
		`conditions have the name "a"`:  {condition("a", "true"), condition("a", "false")},
		"has no expression":             {condition("a", " ")},
		"the API server accepts 64":     {webhooks.MatchConditions(make([]admissionregistrationv1.MatchCondition, 65)...)},
	} {
		NewWithT(t).Expect(validate(accept, opts...).Check()).To(MatchError(ContainSubstring(want)))
	}
	g := NewWithT(t)
	g.Expect(validate(accept, webhooks.Operations(), webhooks.TimeoutSeconds(99)).Check()).
		To(MatchError(And(ContainSubstring(`Widget: Validate("v"): Operations`), ContainSubstring(`Widget: Validate("v"): TimeoutSeconds must be from 1 to 30, got 99`))))
	g.Expect(validate(nil).Check()).To(MatchError(ContainSubstring("the handler is nil")))
	g.Expect(webhooks.Mutating((*v1.Widget)(nil), "m", accept).Check()).To(MatchError(ContainSubstring("the object is nil")))
	g.Expect(webhooks.Mutating(nil, "m", func(context.Context, *webhooks.Request[*corev1.Pod]) error { return nil }).Check()).To(MatchError(ContainSubstring("the object is nil")))
	untyped := loose()
	g.Expect(webhooks.Validating(untyped, "", func(context.Context, *looseRequest) error { return nil }).Check()).
		To(MatchError(`Widget: Validate(""): the id is empty: set one`))
	for _, id := range []string{"", "/a", "a/", "a//b", "../a"} {
		g.Expect(webhooks.Validating(&v1.Widget{}, id, accept).Check()).To(HaveOccurred(), id)
	}
	g.Expect(validate(accept, nil, webhooks.TimeoutSeconds(30)).Check()).To(Succeed())
}

// Check returns conflicts between hooks. SE-35: it detects names that are equal after normalization.
func TestCheck_ConflictingHooks(t *testing.T) {
	v := func(id string) webhooks.Hook { return webhooks.Validating(&v1.Widget{}, id, accept) }
	nameless := &unstructured.Unstructured{}
	type untyped struct{ v1.Widget }
	for want, hooks := range map[string][]webhooks.Hook{
		`the handler Widget: Validate("a") exists already`: {v("a"), v("a")},
		`is also the name of Widget: Validate("a_b")`:      {v("a_b"), v("a-b")},
		`is also the name of Widget: Validate("AB")`:       {v("AB"), v("ab")},
		"the id has no letters and digits":                 {v("---")},
		"which is invalid":                                 {v(strings.Repeat("a", 254))},
		"its kind is unknown":                              {webhooks.Validating(nameless, "u", func(context.Context, *looseRequest) error { return nil })},
		"add the Go type to the scheme": {webhooks.Validating(&untyped{}, "u",
			func(context.Context, *webhooks.Request[*untyped]) error { return nil })},
	} {
		_, err := webhooks.Manifests(scheme, webhooks.Options{
			Name: "x", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://h")}, Certificates: webhooks.Files{CAFile: "ca"},
		}, hooks...)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(want)))
	}
}

// Check returns the conflicts between the hooks without errors of their own together with all other errors, and nothing twice.
func TestCheck_ReportsAllErrorsTogether(t *testing.T) {
	g := NewWithT(t)
	v := func(id string, opts ...webhooks.Option) webhooks.Hook {
		return webhooks.Validating(&v1.Widget{}, id, accept, opts...)
	}
	hooks := []webhooks.Hook{v("a"), v("a"), v("b", webhooks.TimeoutSeconds(31)), v("b"), v(""), v(strings.Repeat("c", 254)), v("---")}
	_, err := webhooks.Manifests(scheme, webhooks.Options{
		Name: "x", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://h")}, Certificates: webhooks.Files{CAFile: "ca"}, Drain: 20e9 + 1,
	}, hooks...)
	g.Expect(err).To(MatchError(ContainSubstring("got 20.000000001s")))
	lines := strings.Split(err.Error(), "\n")
	g.Expect(lines[1:]).To(ConsistOf(
		ContainSubstring(`Widget: Validate("b"): TimeoutSeconds must be from 1 to 30, got 31`),
		ContainSubstring(`Widget: Validate(""): the id is empty`),
		ContainSubstring(`Widget: Validate("a"): the handler Widget: Validate("a") exists already`),
		ContainSubstring(`Widget: Validate("---"): the id has no letters and digits`),
		ContainSubstring("which is invalid"),
	))

	options := webhooks.Options{
		Name: "x", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://h")}, Certificates: webhooks.Files{CAFile: "ca"},
	}
	_, err = webhooks.Manifests(scheme, options, v(strings.Repeat("c", 254)), v(strings.Repeat("c", 254)))
	g.Expect(err).To(MatchError(ContainSubstring("exists already")))
	g.Expect(strings.Split(err.Error(), "\n")).To(ConsistOf(ContainSubstring("exists already"), ContainSubstring("which is invalid")), "two handlers with the same long id")

	_, err = webhooks.Manifests(scheme, webhooks.Options{
		Name: "A_b", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://h")}, Certificates: webhooks.Files{CAFile: "ca"},
	}, v("a"))
	g.Expect(err).To(MatchError(And(ContainSubstring(`the Name "A_b" is invalid`), Not(ContainSubstring("its name in the configuration")))))
}

// wrapped implements Certificates with a type that the package does not know.
type wrapped struct{ webhooks.Files }

func TestCheck_Options(t *testing.T) {
	url := func(text string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{URL: &text}
	}
	service := func(namespace, name string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: name}}
	}
	both := url("https://h")
	both.Service = service("a", "b").Service
	bundled := url("https://h")
	bundled.CABundle = []byte("x")
	type o = webhooks.Options
	for want, options := range map[string]o{
		"Injected, got 7":                        {Configurations: 7},
		"RemoveOnExit, got 7":                    {Exit: 7},
		"needs managed configurations":           {Exit: webhooks.RemoveOnExit},
		"got 20.000000001s":                      {Drain: 20e9 + 1},
		`namespace "A" is invalid`:               {Namespaces: []string{"A"}},
		"configurations is empty":                {Configurations: webhooks.Managed, ClientConfig: url("https://h")},
		`the Name "A_b" is invalid`:              {Configurations: webhooks.Managed, Name: "A_b", ClientConfig: url("https://h")},
		"ClientConfig is empty":                  {Configurations: webhooks.Managed, Name: "a"}, // ADM-40
		"both a URL and a Service":               {ClientConfig: both},
		`form https://host:port/path`:            {ClientConfig: url("http://h")},
		`got "https://h/?a=b"`:                   {ClientConfig: url("https://h/?a=b")},
		"invalid control character":              {ClientConfig: url("https://h\n")},
		"has no Name":                            {ClientConfig: service("a", "")},
		"has no Namespace":                       {ClientConfig: service("", "a")},
		"Files.CAFile needs":                     {Certificates: webhooks.Files{CAFile: "x"}},
		"need CAs: set Files":                    {Configurations: webhooks.Injected, Name: "a", ClientConfig: url("https://h")},
		"Managed or Injected":                    {Certificates: webhooks.SelfManaged{}},
		"set Namespace":                          {Certificates: webhooks.SelfManaged{}},
		"CABundle and SelfManaged":               {Certificates: webhooks.SelfManaged{}, ClientConfig: bundled},
		"Lifetime must be positive":              {Certificates: webhooks.SelfManaged{Lifetime: -1}},
		"less than RenewBefore (10ns), got 10ns": {Certificates: webhooks.SelfManaged{Lifetime: 30, PropagationDelay: 10}},
		"less than RenewBefore (1ns), got 1ns":   {Certificates: webhooks.SelfManaged{Lifetime: 30, RenewBefore: 1, PropagationDelay: 1}},
		"got -1ns":                               {Certificates: webhooks.SelfManaged{RenewBefore: -1}},
		"at least a fiftieth":                    {Certificates: webhooks.SelfManaged{Lifetime: 100, RenewBefore: 99}},
		`host "*.example.com"`:                   {Certificates: webhooks.SelfManaged{Hosts: []string{"*.example.com"}}},
		"got *webhooks.Files":                    {Certificates: (*webhooks.Files)(nil)},
		"got *webhooks.SelfManaged":              {Certificates: (*webhooks.SelfManaged)(nil)},
		"got webhooks_test.wrapped":              {Certificates: wrapped{webhooks.Files{}}},
		`the host "" is invalid`:                 {Certificates: webhooks.SelfManaged{Hosts: []string{""}}},
	} {
		NewWithT(t).Expect(webhooks.CheckOf(options)).To(MatchError(ContainSubstring(want)))
	}
	g := NewWithT(t)
	g.Expect(webhooks.CheckOf(o{})).To(Succeed(), "ADM-24: want unmanaged configurations by default")
	g.Expect(webhooks.CheckOf(o{Certificates: &webhooks.Files{}})).To(Succeed())
	g.Expect(webhooks.CheckOf(o{Certificates: &webhooks.SelfManaged{}})).To(MatchError(ContainSubstring("Managed or Injected")))
	g.Expect(webhooks.CheckOf(o{
		Configurations: webhooks.Managed, Name: "a.b", Namespace: "ns", ClientConfig: service("", "a"), Certificates: webhooks.SelfManaged{},
	})).To(Succeed())
}
