package kopf_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/events"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// rulesOf returns the roles and rules that WriteRights writes, without the Events, in one line each.
func rulesOf(t *testing.T, options rights.Options, opts ...kopf.Option) (rules []string) {
	t.Helper()
	var out bytes.Buffer
	if err := kopf.WriteRights(&out, clientgoscheme.Scheme, options, opts...); err != nil {
		t.Fatal(err)
	}
	for rule := range strings.SplitSeq(strings.ReplaceAll(out.String(), "\n- ", "\n\n- "), "\n\n") {
		for document := range strings.SplitSeq(rule, "---\n") {
			text := strings.Join(strings.Fields(document), " ")
			if rest, ok := strings.CutPrefix(text, "apiVersion: rbac.authorization.k8s.io/v1 kind: "); ok {
				text = strings.ReplaceAll(rest, "metadata: name: ", "")
			}
			if !strings.Contains(text, "# Events") {
				rules = append(rules, text)
			}
		}
	}
	return rules
}

func TestWriteRights(t *testing.T) {
	ignore := func(context.Context, *kopf.Request[configMap]) error { return nil }
	maps := func() *kopf.Resource[configMap] { return kopf.For(&corev1.ConfigMap{}) }
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Box"}
	boxes := func(metav1.APIResource) kopf.Option {
		return kopf.For(kopf.Unstructured(gvk)).OnCreate("create", func(context.Context, *kopf.Request[*unstructured.Unstructured]) error { return nil })
	}
	service := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: "operator"}}
	kinds := []metav1.APIResource{
		{Group: "example.com", Version: "v1", Kind: "Box", Name: "boxen", ShortNames: []string{"bx"}, Verbs: metav1.Verbs{"list", "watch"}},
		{Group: "example.com", Version: "v1", Kind: "Box", Name: "boxen/status"},
	}
	for name, test := range map[string]struct {
		options rights.Options
		opts    []kopf.Option
		want    []string
	}{
		"handlers": {opts: []kopf.Option{maps().OnCreate("create", ignore)}, want: []string{
			"ClusterRole r rules:",
			`- apiGroups: [""] # handlers of ConfigMap resources: [configmaps] verbs: [get, list, watch, patch]`,
		}},
		"status": {opts: []kopf.Option{kopf.For(&appsv1.Deployment{}).OnReconcile("x", ignoreDeployment).Owns(&corev1.Secret{})}, want: []string{
			"ClusterRole r rules:",
			`- apiGroups: [""] # Owns of Deployment resources: [secrets] verbs: [list, watch]`,
			"- apiGroups: [apps] # handlers of Deployment resources: [deployments] verbs: [get, list, watch, patch]",
			"- apiGroups: [apps] # handlers of Deployment resources: [deployments/status] verbs: [patch]",
		}},
		"only events": {opts: []kopf.Option{maps().OnEvent("see", ignore)}, want: []string{
			"ClusterRole r rules:", `- apiGroups: [""] # handlers of ConfigMap resources: [configmaps] verbs: [list, watch]`,
		}},
		"namespaces, kopf Events and a declared need": {
			opts: []kopf.Option{
				maps().OnCreate("create", ignore), kopf.WithNamespaces("a", "b"), kopf.WithEvents(events.Options{KopfForm: &events.KopfForm{}}), kopf.Needs(&corev1.Secret{}, "create", "get"),
				kopf.NeedsRules(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps/finalizers"}, ResourceNames: []string{"x"}, Verbs: []string{"update"}}),
			},
			want: rulesInNamespaces("a", "b"),
		},
		"selected namespaces": {opts: []kopf.Option{maps().OnEvent("see", ignore), kopf.WithNamespaces("a*")}, want: []string{
			"ClusterRole r rules:", `- apiGroups: [""] # handlers of ConfigMap resources: [configmaps] verbs: [list, watch]`,
			`- apiGroups: [""] # the namespaces that the operator selects resources: [namespaces] verbs: [list, watch]`,
		}},
		"patterns of kinds": {opts: []kopf.Option{kopf.ForKinds(kopf.Kinds("*.example.com", "boxen.v1.example.org"), boxes)}, want: []string{
			"ClusterRole r rules:",
			"- apiGroups: [apiextensions.k8s.io] # optional: without it, new kinds are noticed within 10 seconds resources: [customresourcedefinitions] verbs: [watch]",
			`- apiGroups: [example.com] # kinds of ForKinds resources: ["*"] verbs: [get, list, watch, patch]`,
			"- apiGroups: [example.org] # kinds of ForKinds resources: [boxen] verbs: [get, list, watch, patch]",
			"- apiGroups: [example.org] # kinds of ForKinds resources: [boxen/status] verbs: [patch]",
		}},
		"all kinds": {opts: []kopf.Option{kopf.ForKinds(kopf.Kinds("*"), boxes)}, want: []string{
			"ClusterRole r rules:", `- apiGroups: ["*"] # kinds of ForKinds resources: ["*"] verbs: [get, list, watch, patch]`,
		}},
		"known kinds": {
			options: rights.Options{Kinds: kinds, Namespaces: []string{"a"}}, opts: []kopf.Option{kopf.ForKinds(kopf.Kinds("bx"), boxes)},
			want: []string{
				"ClusterRole r rules:",
				"- apiGroups: [apiextensions.k8s.io] # optional: without it, new kinds are noticed within 10 seconds resources: [customresourcedefinitions] verbs: [watch]",
				"- apiGroups: [example.com] # handlers of Box resources: [boxen] verbs: [get, list, watch, patch]",
				"- apiGroups: [example.com] # handlers of Box resources: [boxen/status] verbs: [patch]",
				"Role r namespace: a rules:", "Role r namespace: default rules:",
			},
		},
		"an operator": {
			options: rights.Options{Namespace: "system", ServiceAccount: "op", LeaderElection: true},
			opts: []kopf.Option{
				maps().OnCreate("create", ignore), kopf.WithPeering(peering.Options{}), kopf.WithRemote(&progress.SideObjects{Client: struct{ client.Client }{}, Reader: struct{ client.Reader }{}}),
				kopf.WithWebhooks(webhooks.Options{Name: "example.com", Configurations: webhooks.Managed, Certificates: webhooks.SelfManaged{}, ClientConfig: service}),
			},
			want: []string{
				"apiVersion: v1 kind: ServiceAccount metadata: name: op namespace: system",
				"ClusterRole r rules:",
				`- apiGroups: [""] # handlers of ConfigMap; progress in side objects resources: [configmaps] verbs: [get, list, watch, create, update, patch, delete]`,
				"- apiGroups: [admissionregistration.k8s.io] # webhook configurations resources: [mutatingwebhookconfigurations] verbs: [create]",
				"- apiGroups: [admissionregistration.k8s.io] # webhook configurations resources: [mutatingwebhookconfigurations] resourceNames: [example.com] verbs: [get, list, watch, patch, delete]",
				"- apiGroups: [admissionregistration.k8s.io] # webhook configurations resources: [validatingwebhookconfigurations] verbs: [create]",
				"- apiGroups: [admissionregistration.k8s.io] # webhook configurations resources: [validatingwebhookconfigurations] resourceNames: [example.com] verbs: [get, list, watch, patch, delete]",
				"- apiGroups: [kopf.dev] # peering resources: [clusterkopfpeerings] verbs: [list, watch, patch]",
				"- apiGroups: [kopf.dev] # peering resources: [clusterkopfpeerings/status] verbs: [patch]",
				"- apiGroups: [zalando.org] # optional: peering with old operators in Python resources: [clusterkopfpeerings] verbs: [list, watch, patch]",
				"- apiGroups: [zalando.org] # optional: peering with old operators in Python resources: [clusterkopfpeerings/status] verbs: [patch]",
				"ClusterRoleBinding r roleRef: apiGroup: rbac.authorization.k8s.io kind: ClusterRole name: r subjects:", "- kind: ServiceAccount name: op namespace: system",
				"Role r namespace: system rules:",
				`- apiGroups: [""] # leader election resources: [events] verbs: [create, patch]`,
				`- apiGroups: [""] # certificates of webhooks resources: [secrets] verbs: [create]`,
				`- apiGroups: [""] # certificates of webhooks resources: [secrets] resourceNames: [webhook-certificates] verbs: [get, list, watch, update]`,
				"- apiGroups: [coordination.k8s.io] # leader election resources: [leases] verbs: [get, create, update]",
				"RoleBinding r namespace: system roleRef: apiGroup: rbac.authorization.k8s.io kind: Role name: r subjects:", "- kind: ServiceAccount name: op namespace: system",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.options.Name = "r"
			if diff := cmp.Diff(test.want, rulesOf(t, test.options, test.opts...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func rulesInNamespaces(namespaces ...string) (rules []string) {
	for _, ns := range namespaces {
		rules = append(rules, "Role r namespace: "+ns+" rules:",
			`- apiGroups: [""] # handlers of ConfigMap resources: [configmaps] verbs: [get, list, watch, patch]`,
			`- apiGroups: [""] # the handlers' own requests resources: [configmaps/finalizers] resourceNames: [x] verbs: [update]`,
			`- apiGroups: [""] # the handlers' own requests resources: [secrets] verbs: [get, create]`)
	}
	return rules
}

func TestWriteRights_Errors(t *testing.T) {
	maps := kopf.For(&corev1.ConfigMap{}).OnEvent("see", func(context.Context, *kopf.Request[configMap]) error { return nil })
	named := rights.Options{Name: "r"}
	withKinds := rights.Options{Name: "r", Kinds: []metav1.APIResource{{Group: "example.com", Version: "v1", Kind: "Box", Name: "boxes", Verbs: metav1.Verbs{"list", "watch"}}}}
	for _, test := range []struct {
		want    string
		options rights.Options
		opts    []kopf.Option
	}{
		{"rights.Options has no Name", rights.Options{}, []kopf.Option{maps}},
		{"rights.Options has no Namespace", rights.Options{Name: "r", ServiceAccount: "op"}, []kopf.Option{maps}},
		{"rights.Options has no Namespace", rights.Options{Name: "r", LeaderElection: true}, []kopf.Option{maps}},
		{"which contains the Secret of the certificates", named, []kopf.Option{maps, kopf.WithWebhooks(webhooks.Options{Name: "a.b", Configurations: webhooks.Managed, Certificates: &webhooks.SelfManaged{}})}},
		{"Needs(nil)", named, []kopf.Option{maps, kopf.Needs(nil, "get")}},
		{"has no verbs", named, []kopf.Option{maps, kopf.Needs(&corev1.Secret{})}},
		{"lower-case", named, []kopf.Option{maps, kopf.Needs(&corev1.Secret{}, "Get")}},
		{"must have apiGroups", named, []kopf.Option{maps, kopf.NeedsRules(rbacv1.PolicyRule{Verbs: []string{"get"}})}},
		{"is not registered", named, []kopf.Option{maps, kopf.Needs(&unregistered{}, "get")}},
		{"WithRightsCheck(7)", named, []kopf.Option{maps, kopf.WithRightsCheck(7)}},
		{`the group and the plural of the pattern "po" are not known`, named, []kopf.Option{kopf.ForKinds(kopf.Kinds("po"), func(metav1.APIResource) kopf.Option { return nil })}},
		{"the kinds are not known", named, []kopf.Option{kopf.ForKinds(kopf.KindsFunc(func(metav1.APIResource) bool { return true }), func(metav1.APIResource) kopf.Option { return nil })}},
		{`pattern "Box.example.com"`, named, []kopf.Option{kopf.ForKinds(kopf.Kinds("Box.example.com"), func(metav1.APIResource) kopf.Option { return nil })}},
		{`pattern "pods.v1"`, named, []kopf.Option{kopf.ForKinds(kopf.Kinds("pods.v1"), func(metav1.APIResource) kopf.Option { return nil })}},
		{"selects none", withKinds, []kopf.Option{kopf.ForKinds(kopf.Kinds("crates"), func(metav1.APIResource) kopf.Option { return nil })}},
		{"must return a resource", withKinds, []kopf.Option{kopf.ForKinds(kopf.Kinds("boxes"), func(metav1.APIResource) kopf.Option { return nil })}},
		{"must return a resource", withKinds, []kopf.Option{kopf.ForKinds(kopf.Kinds("boxes"), func(metav1.APIResource) kopf.Option { return (*kopf.Resource[configMap])(nil) })}},
		{"panicked: boom", withKinds, []kopf.Option{kopf.ForKinds(kopf.Kinds("boxes"), func(metav1.APIResource) kopf.Option { panic("boom") })}},
		{"ForKinds", withKinds, []kopf.Option{kopf.ForKinds(kopf.Kinds("boxes"), nil)}},
		{"WithWebhooks: ", rights.Options{Name: "r", Namespace: "n"}, []kopf.Option{maps, kopf.WithWebhooks(webhooks.Options{Configurations: webhooks.Managed})}},
		{"in lower case", named, []kopf.Option{maps, kopf.NeedsRules(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"LIST"}})}},
		{"handler is nil", named, []kopf.Option{kopf.For(&corev1.ConfigMap{}).OnCreate("x", nil)}},
	} {
		var out bytes.Buffer
		if err := kopf.WriteRights(&out, clientgoscheme.Scheme, test.options, test.opts...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("the error is %v, want one with %q", err, test.want)
		}
		if out.Len() > 0 {
			t.Errorf("with an error, WriteRights wrote %q, want nothing", out.String())
		}
	}
}

// The page needs a manager, but no permissions.
func TestWriteRights_WithStatusPage(t *testing.T) {
	maps := kopf.For(&corev1.ConfigMap{}).OnEvent("see", func(context.Context, *kopf.Request[configMap]) error { return nil })
	var with, without bytes.Buffer
	if err := kopf.WriteRights(&with, clientgoscheme.Scheme, rights.Options{Name: "r"}, maps, kopf.WithStatusPage()); err != nil {
		t.Fatal(err)
	}
	if err := kopf.WriteRights(&without, clientgoscheme.Scheme, rights.Options{Name: "r"}, maps); err != nil {
		t.Fatal(err)
	}
	if with.String() != without.String() || with.Len() == 0 {
		t.Errorf("got the roles\n%s\nwant\n%s", with.String(), without.String())
	}
	if err := kopf.SetupWithManager(nil, maps, kopf.WithStatusPage()); err == nil || !strings.Contains(err.Error(), "manager") {
		t.Errorf("SetupWithManager(nil) returns %v, want an error about the manager", err)
	}
}

func TestWriteRights_NilScheme(t *testing.T) {
	maps := kopf.For(&corev1.ConfigMap{}).OnEvent("see", func(context.Context, *kopf.Request[configMap]) error { return nil })
	if err := kopf.WriteRights(&bytes.Buffer{}, nil, rights.Options{Name: "r"}, maps); err == nil || !strings.Contains(err.Error(), "the scheme is nil") {
		t.Errorf("got error %v, want one with %q", err, "the scheme is nil")
	}
}

// Built-in kinds without namespaces need permissions for the cluster, also if the operator is restricted to namespaces.
func TestWriteRights_ClusterScoped(t *testing.T) {
	want := []string{
		"ClusterRole r rules:",
		`- apiGroups: [""] # the handlers' own requests resources: [namespaces] verbs: [get]`,
		`- apiGroups: [""] # handlers of Node resources: [nodes] verbs: [list, watch]`,
		`- apiGroups: [""] # the handlers' own requests resources: [nodes/proxy] verbs: [get]`,
		"Role r namespace: a rules:",
		`- apiGroups: [""] # the handlers' own requests resources: [secrets] verbs: [get]`,
		"Role r namespace: default rules:",
	}
	got := rulesOf(t, rights.Options{Name: "r", Namespaces: []string{"a"}},
		kopf.For(&corev1.Node{}).OnEvent("see", func(context.Context, *kopf.Request[*corev1.Node]) error { return nil }),
		kopf.Needs(&corev1.Namespace{}, "get"), kopf.Needs(&corev1.Secret{}, "get"),
		kopf.NeedsRules(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes/proxy"}, Verbs: []string{"get"}}))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// unregistered is a kind that is not in the scheme.
type unregistered struct{ corev1.ConfigMap }
