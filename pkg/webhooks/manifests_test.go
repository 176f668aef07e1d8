package webhooks_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

func optionsWithURL(url string) webhooks.Options {
	return webhooks.Options{
		Name: "auto.kopf.dev", Certificates: webhooks.SelfManaged{}, Namespace: "ns",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new(url)},
	}
}

func manifests(t *testing.T, o webhooks.Options, hooks ...webhooks.Hook) (v []admissionregistrationv1.ValidatingWebhook, m []admissionregistrationv1.MutatingWebhook) {
	t.Helper()
	objects, err := webhooks.Manifests(scheme, o, hooks...)
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects {
		switch obj := obj.(type) {
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			v = append(v, obj.Webhooks...)
		case *admissionregistrationv1.MutatingWebhookConfiguration:
			m = append(m, obj.Webhooks...)
		}
	}
	return v, m
}

// ADM-18, ADM-20, ADM-23: the test checks every field of the entry that the default options produce.
func TestManifests_DefaultEntry(t *testing.T) {
	v, m := manifests(t, optionsWithURL("https://h:9443/p/"), validate(accept), mutate(accept))
	want := admissionregistrationv1.ValidatingWebhook{
		Name:         "v.auto.kopf.dev",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://h:9443/p/v")},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{"*"},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{"e2e.example.com"}, APIVersions: []string{"v1"}, Resources: []string{"widgets"},
				Scope: new(admissionregistrationv1.AllScopes),
			},
		}},
		FailurePolicy: new(admissionregistrationv1.Fail),
		MatchPolicy:   new(admissionregistrationv1.Equivalent),
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system"},
		}}},
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(10)),
		AdmissionReviewVersions: []string{"v1", "v1beta1"},
	}
	g := NewWithT(t)
	g.Expect(v).To(HaveLen(1))
	g.Expect(cmp.Diff(want, v[0])).To(BeEmpty())
	g.Expect(m).To(HaveLen(1))
	g.Expect(m[0].Rules[0].Operations).To(HaveExactElements(admissionregistrationv1.Create, admissionregistrationv1.Update), "ADM-06")
	g.Expect(*m[0].ReinvocationPolicy).To(Equal(admissionregistrationv1.NeverReinvocationPolicy))

	inCluster := optionsWithURL("")
	inCluster.ClientConfig = admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: "databases"}}
	v, _ = manifests(t, inCluster, validate(accept))
	g.Expect(v[0].NamespaceSelector.MatchExpressions[0].Values).To(Equal([]string{"kube-system", "ns"}), "want the operator's namespace excluded, because its pods must start first")
}

// ADM-23: the namespace of the operator's pods is excluded, so that they can start. With a URL, it is excluded only if
// the operator runs in a pod.
func TestOptions_ExcludedNamespace(t *testing.T) {
	pod := filepath.Join(t.TempDir(), "namespace")
	must(os.WriteFile(pod, []byte("ns\n"), 0o600))
	service := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: "s"}}
	url := admissionregistrationv1.WebhookClientConfig{URL: new("https://h")}
	for name, c := range map[string]struct {
		options     webhooks.Options
		in, outside string
	}{
		"by default":                           {webhooks.Options{}, "ns", ""},
		"a Service":                            {webhooks.Options{ClientConfig: service}, "ns", ""},
		"a Service with an explicit Namespace": {webhooks.Options{ClientConfig: service, Namespace: "own"}, "own", "own"},
		"a URL":                                {webhooks.Options{ClientConfig: url}, "ns", ""},
		"a URL with an explicit Namespace":     {webhooks.Options{ClientConfig: url, Namespace: "jane"}, "ns", ""},
	} {
		g := NewWithT(t)
		g.Expect(webhooks.PodNamespaceOf(c.options, pod)).To(Equal(c.in), name)
		g.Expect(webhooks.PodNamespaceOf(c.options, pod+"-missing")).To(Equal(c.outside), name)
	}
}

// With a URL, the API server can be that of another cluster, in which the namespace of the pod has another meaning.
func TestOptions_ExcludedNamespaceOfAnotherCluster(t *testing.T) {
	pod := filepath.Join(t.TempDir(), "namespace")
	must(os.WriteFile(pod, []byte("ns\n"), 0o600))
	url := webhooks.Options{ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://h")}}
	service := webhooks.Options{ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: "s"}}}
	for name, c := range map[string]struct {
		options       webhooks.Options
		service, host string
		want          string
	}{
		"the own cluster":                      {url, "10.0.0.1", "https://10.0.0.1:443", "ns"},
		"the own cluster with IPv6":            {url, "fd00::1", "https://[fd00::1]:443", "ns"},
		"the own cluster by name":              {url, "10.0.0.1", "https://kubernetes.default.svc", "ns"},
		"the own cluster by its full name":     {url, "10.0.0.1", "kubernetes.default.svc.cluster.local:443", "ns"},
		"another cluster":                      {url, "10.0.0.1", "https://other.example.com:6443", ""},
		"another cluster with a similar name":  {url, "10.0.0.1", "https://kubernetes.default.example.com", ""},
		"another cluster without own variable": {url, "", "https://other.example.com:6443", ""},
		"a connection without a host":          {url, "", "", ""},
		"a Service of another cluster":         {service, "10.0.0.1", "https://other.example.com:6443", "ns"},
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", c.service)
		NewWithT(t).Expect(webhooks.PodNamespaceFor(c.options, pod, &rest.Config{Host: c.host})).To(Equal(c.want), name)
	}
}

// ADM-18, ADM-20, ADM-21, FLT-18, SE-34: the options change the entry.
func TestManifests_EntryWithOptions(t *testing.T) {
	g := NewWithT(t)
	big := admissionregistrationv1.MatchCondition{Name: "big", Expression: "true"}
	_, m := manifests(t, optionsWithURL("https://h"), mutate(accept,
		webhooks.Operations("DELETE", "CREATE"), webhooks.Subresource("*"), webhooks.Plural("widgetti"),
		webhooks.Label("a", "x"), webhooks.Label("b"), webhooks.NoLabel("c"), webhooks.MatchConditions(big),
		webhooks.SideEffects("NoneOnDryRun"), webhooks.FailurePolicy("Ignore"), webhooks.TimeoutSeconds(30),
		webhooks.ReinvocationPolicy("IfNeeded"), webhooks.NamespaceSelector(&metav1.LabelSelector{MatchLabels: map[string]string{"l": "m"}}),
		webhooks.Persistent()))
	e := m[0]
	g.Expect(e.Rules[0].Operations).To(HaveExactElements(admissionregistrationv1.Delete, admissionregistrationv1.Create))
	g.Expect(e.Rules[0].Resources).To(Equal([]string{"widgetti/*"}))
	g.Expect(e.ObjectSelector.MatchExpressions).To(Equal([]metav1.LabelSelectorRequirement{
		{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{"x"}},
		{Key: "b", Operator: metav1.LabelSelectorOpExists},
		{Key: "c", Operator: metav1.LabelSelectorOpDoesNotExist},
	}))
	g.Expect(e.MatchConditions).To(Equal([]admissionregistrationv1.MatchCondition{big}))
	g.Expect(*e.SideEffects).To(BeEquivalentTo("NoneOnDryRun"))
	g.Expect(*e.FailurePolicy).To(BeEquivalentTo("Ignore"))
	g.Expect(*e.TimeoutSeconds).To(BeEquivalentTo(30))
	g.Expect(*e.ReinvocationPolicy).To(BeEquivalentTo("IfNeeded"))
	g.Expect(e.NamespaceSelector.MatchLabels).To(Equal(map[string]string{"l": "m"}))
	g.Expect(e.NamespaceSelector.MatchExpressions).To(HaveLen(1), "want the default exclusions")

	scoped := optionsWithURL("https://h")
	scoped.Namespaces = []string{"one"}
	v, _ := manifests(t, scoped, validate(accept),
		webhooks.Validating(&v1.Widget{}, "named", accept, webhooks.Namespaces("kube-system")),
		webhooks.Validating(&v1.Widget{}, "every", accept, webhooks.EveryNamespace()))
	g.Expect(v[0].NamespaceSelector.MatchExpressions[0].Values).To(Equal([]string{"one"}))
	g.Expect(v[1].NamespaceSelector.MatchExpressions[0].Values).To(Equal([]string{"kube-system"}))
	g.Expect(v[2].NamespaceSelector.MatchExpressions).To(BeEmpty())
}

// ADM-19, ADM-22 and appendix B: names and URLs are the same as in kopf. SE-35: names that the API server would reject
// are normalized.
func TestManifests_Names(t *testing.T) {
	for id, want := range map[string][2]string{
		"val_fn/x!":  {"val-fn.x21.auto.kopf.dev", "val_fn/x%21"},
		"mut/spec.f": {"mut.spec.f.auto.kopf.dev", "mut/spec.f"},
		"checkSize":  {"checksize.auto.kopf.dev", "checkSize"},
		"_a_/-b-":    {"a.b.auto.kopf.dev", "_a_/-b-"},
		"größe":      {"grc3b6c39fe.auto.kopf.dev", "gr%C3%B6%C3%9Fe"},
		"a b+c~{x}":  {"a20b2bc7e7bx7d.auto.kopf.dev", "a%20b%2Bc~%7Bx%7D"},
		"a%2Fb":      {"a252fb.auto.kopf.dev", "a%252Fb"},
	} {
		g := NewWithT(t)
		hook := webhooks.Validating(&v1.Widget{}, id, func(context.Context, *widgetRequest) error { return webhooks.Deny(418, "", id) })
		v, _ := manifests(t, optionsWithURL("https://h:9443/p/"), hook)
		g.Expect(v[0].Name).To(Equal(want[0]))
		g.Expect(*v[0].ClientConfig.URL).To(Equal("https://h:9443/p/" + want[1]))
		code, got := serve(t, hook).post("/"+want[1], review()) // ADM-43
		g.Expect(code).To(Equal(http.StatusOK))
		g.Expect(got.Response.Result.Message).To(Equal(id), "want a response for the path")
	}
}

// ADM-22: the path is relative to the path of the Service, if there is one.
func TestManifests_ServicePath(t *testing.T) {
	for path, want := range map[string]string{"": "/val_fn/x%21", "/": "/val_fn/x%21", "/p/": "/p/val_fn/x%21", "p": "/p/val_fn/x%21"} {
		o := optionsWithURL("")
		o.ClientConfig = admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: "s", Path: &path}}
		v, _ := manifests(t, o, webhooks.Validating(&v1.Widget{}, "val_fn/x!", accept))
		g := NewWithT(t)
		g.Expect(*v[0].ClientConfig.Service).To(Equal(admissionregistrationv1.ServiceReference{
			Namespace: "ns", Name: "s", Port: new(int32(443)), Path: &want,
		}))
	}
}

// Hooks of several kinds can share an id. Their names then contain the kind.
func TestManifests_SharedIDs(t *testing.T) {
	g := NewWithT(t)
	deployments := func(context.Context, *webhooks.Request[*appsv1.Deployment]) error { return nil }
	v, m := manifests(t, optionsWithURL("https://h"), validate(accept),
		webhooks.Validating(&appsv1.Deployment{}, "size", deployments),
		webhooks.Validating(&v1.Widget{}, "size", accept), webhooks.Mutating(&v1.Widget{}, "size", accept))
	g.Expect(v[0].Name).To(Equal("v.auto.kopf.dev"))
	g.Expect(v[1].Name).To(Equal("size.validate.deployment.apps.auto.kopf.dev"))
	g.Expect(*v[2].ClientConfig.URL).To(Equal("https://h/size/validate.widget.e2e.example.com"))
	g.Expect(*m[0].ClientConfig.URL).To(Equal("https://h/size/mutate.widget.e2e.example.com"))
}

// ADM-26, SE-33: a configuration is written only if it has handlers.
func TestWriteManifests(t *testing.T) {
	g := NewWithT(t)
	var out strings.Builder
	o := optionsWithURL("https://h")
	o.Name, o.Annotations = "databases", map[string]string{"cert-manager.io/inject-ca-from": "ns/cert"}
	g.Expect(webhooks.WriteManifests(&out, scheme, o, validate(accept))).To(Succeed())
	g.Expect(out.String()).To(And(
		HavePrefix("---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\n"),
		ContainSubstring("name: v.databases.kopf.dev"), ContainSubstring("inject-ca-from: ns/cert"),
		Not(ContainSubstring("Mutating"))))
	out.Reset()
	g.Expect(webhooks.WriteManifests(&out, scheme, o)).To(Succeed())
	g.Expect(out.String()).To(BeEmpty())
	g.Expect(webhooks.WriteManifests(&out, scheme, webhooks.Options{}, validate(accept))).NotTo(Succeed())
}
