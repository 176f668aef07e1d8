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

// Mistakes in a declaration are told, all of them, with what to do. HND-08: operations that are none.
func TestMistakesOfHooks(t *testing.T) {
	condition := func(name, expression string) webhooks.Option {
		return webhooks.MatchConditions(admissionregistrationv1.MatchCondition{Name: name, Expression: expression})
	}
	for want, opts := range map[string][]webhooks.Option{
		"Operations names none":            {webhooks.Operations()},
		`there is no "PATCH"`:              {webhooks.Operations("PATCH")},
		"names CREATE twice":               {webhooks.Operations("CREATE", "CREATE")},
		"names * and others":               {webhooks.Operations("*", "CREATE")},
		"Subresource is empty":             {webhooks.Subresource("")},
		"is no subresource":                {webhooks.Subresource("widgets/status")},
		"is no resource":                   {webhooks.Plural("Widgets")},
		"TimeoutSeconds is 31":             {webhooks.TimeoutSeconds(31)},
		"TimeoutSeconds is 0":              {webhooks.TimeoutSeconds(0)},
		"look at DryRun":                   {webhooks.SideEffects("Some")},
		"use Fail or Ignore":               {webhooks.FailurePolicy("Maybe")},
		"use Never or IfNeeded":            {webhooks.ReinvocationPolicy("Always")},
		"for mutating handlers":            {webhooks.ReinvocationPolicy("Never")},
		"Label or NoLabel can never match": {webhooks.Label("a b")},
		`can never match: the value "b c" of "a" is not valid: it contains ' '`: {webhooks.Label("a", "b c")},
		"NamespaceSelector":             {webhooks.NamespaceSelector(&metav1.LabelSelector{MatchLabels: map[string]string{"a b": ""}})},
		"Namespaces without any names":  {webhooks.Namespaces()},
		`"A" is no namespace`:           {webhooks.Namespaces("A")},
		"Namespaces and EveryNamespace": {webhooks.Namespaces("a"), webhooks.EveryNamespace()},
		`the name "a b" cannot be one`:  {condition("a b", "true")},
		`two have the name "a"`:         {condition("a", "true"), condition("a", "false")},
		"has no expression":             {condition("a", " ")},
		"the API server takes 64":       {webhooks.MatchConditions(make([]admissionregistrationv1.MatchCondition, 65)...)},
	} {
		NewWithT(t).Expect(validate(accept, opts...).Check()).To(MatchError(ContainSubstring(want)))
	}
	g := NewWithT(t)
	g.Expect(validate(accept, webhooks.Operations(), webhooks.TimeoutSeconds(99)).Check()).
		To(MatchError(And(ContainSubstring(`Widget: Validate("v"): Operations`), ContainSubstring(`Widget: Validate("v"): TimeoutSeconds is 99`))))
	g.Expect(validate(nil).Check()).To(MatchError(ContainSubstring("the handler is nil")))
	g.Expect(webhooks.Mutating((*v1.Widget)(nil), "m", accept).Check()).To(MatchError(ContainSubstring("the object is nil")))
	g.Expect(webhooks.Mutating(nil, "m", func(context.Context, *webhooks.Request[*corev1.Pod]) error { return nil }).Check()).To(MatchError(ContainSubstring("the object is nil")))
	untyped := loose()
	g.Expect(webhooks.Validating(untyped, "", func(context.Context, *looseRequest) error { return nil }).Check()).
		To(MatchError(`Widget: Validate(""): the id is empty: give the handler a name`))
	for _, id := range []string{"", "/a", "a/", "a//b", "../a"} {
		g.Expect(webhooks.Validating(&v1.Widget{}, id, accept).Check()).To(HaveOccurred(), id)
	}
	g.Expect(validate(accept, nil, webhooks.TimeoutSeconds(30)).Check()).To(Succeed())
}

// Hooks that do not go together; SE-35: names that are the same once they are normal.
func TestMistakesOfSeveralHooks(t *testing.T) {
	v := func(id string) webhooks.Hook { return webhooks.Validating(&v1.Widget{}, id, accept) }
	nameless := &unstructured.Unstructured{}
	type untyped struct{ v1.Widget }
	for want, hooks := range map[string][]webhooks.Hook{
		`there is a handler Widget: Validate("a") already`: {v("a"), v("a")},
		`would be that of Widget: Validate("a_b")`:         {v("a_b"), v("a-b")},
		`would be that of Widget: Validate("AB")`:          {v("AB"), v("ab")},
		"no name can be made":                              {v("---")},
		"which cannot be":                                  {v(strings.Repeat("a", 254))},
		"its kind is not known":                            {webhooks.Validating(nameless, "u", func(context.Context, *looseRequest) error { return nil })},
		"add the Go type to the scheme": {webhooks.Validating(&untyped{}, "u",
			func(context.Context, *webhooks.Request[*untyped]) error { return nil })},
	} {
		_, err := webhooks.Manifests(scheme, webhooks.Options{
			Name: "x", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://h")}, Certificates: webhooks.Files{CAFile: "ca"},
		}, hooks...)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(want)))
	}
}

// wrapped is a type of one's own that is none of those there are.
type wrapped struct{ webhooks.Files }

func TestMistakesOfOptions(t *testing.T) {
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
		"Configurations (7)":           {Configurations: 7},
		"Exit (7)":                     {Exit: 7},
		"nothing to remove":            {Exit: webhooks.RemoveOnExit},
		"Drain is 20.000000001s":       {Drain: 20e9 + 1},
		`"A" is no namespace`:          {Namespaces: []string{"A"}},
		"the Name is empty":            {Configurations: webhooks.Managed, ClientConfig: url("https://h")},
		"cannot be that of":            {Configurations: webhooks.Managed, Name: "A_b", ClientConfig: url("https://h")},
		"ClientConfig is empty":        {Configurations: webhooks.Managed, Name: "a"}, // ADM-40
		"both a URL and a Service":     {ClientConfig: both},
		`takes https://host:port/path`: {ClientConfig: url("http://h")},
		"and nothing else":             {ClientConfig: url("https://h/?a=b")},
		"invalid control character":    {ClientConfig: url("https://h\n")},
		"has no Name":                  {ClientConfig: service("a", "")},
		"has no Namespace":             {ClientConfig: service("", "a")},
		"Files.CAFile is for":          {Certificates: webhooks.Files{CAFile: "x"}},
		"there is nothing to inject":   {Configurations: webhooks.Injected, Name: "a", ClientConfig: url("https://h")},
		"nobody tells the API server":  {Certificates: webhooks.SelfManaged{}},
		"name the namespace":           {Certificates: webhooks.SelfManaged{}},
		"CABundle and SelfManaged":     {Certificates: webhooks.SelfManaged{}, ClientConfig: bundled},
		"Lifetime is negative":         {Certificates: webhooks.SelfManaged{Lifetime: -1}},
		"less than RenewBefore (10ns)": {Certificates: webhooks.SelfManaged{Lifetime: 30, Settle: 10}},
		"less than RenewBefore (1ns)":  {Certificates: webhooks.SelfManaged{Lifetime: 30, RenewBefore: 1, Settle: 1}},
		"RenewBefore is -1ns":          {Certificates: webhooks.SelfManaged{RenewBefore: -1}},
		"at least a fiftieth":          {Certificates: webhooks.SelfManaged{Lifetime: 100, RenewBefore: 99}},
		"no certificate can be made":   {Certificates: webhooks.SelfManaged{Hosts: []string{"*.example.com"}}},
		"a *webhooks.Files: use":       {Certificates: (*webhooks.Files)(nil)},
		"a *webhooks.SelfManaged: use": {Certificates: (*webhooks.SelfManaged)(nil)},
		"webhooks_test.wrapped: use":   {Certificates: wrapped{webhooks.Files{}}},
		`made for the host ""`:         {Certificates: webhooks.SelfManaged{Hosts: []string{""}}},
	} {
		NewWithT(t).Expect(webhooks.CheckOf(options)).To(MatchError(ContainSubstring(want)))
	}
	g := NewWithT(t)
	g.Expect(webhooks.CheckOf(o{})).To(Succeed(), "ADM-24: nothing is managed unless it is asked for")
	g.Expect(webhooks.CheckOf(o{Certificates: &webhooks.Files{}})).To(Succeed())
	g.Expect(webhooks.CheckOf(o{Certificates: &webhooks.SelfManaged{}})).To(MatchError(ContainSubstring("nobody tells the API server")))
	g.Expect(webhooks.CheckOf(o{
		Configurations: webhooks.Managed, Name: "a.b", Namespace: "ns", ClientConfig: service("", "a"), Certificates: webhooks.SelfManaged{},
	})).To(Succeed())
}
