package webhooks_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// ADM-25, ADM-30: the rules of config/rbac are sufficient. Without them, the operator stops with an error that names
// the missing rule.
func TestPermissions_AreSufficient(t *testing.T) {
	t.Parallel() // the test mostly waits
	needServer(t)
	g, ctx := NewWithT(t), t.Context()
	ns := newNamespace(t)
	powerless := impersonate("system:serviceaccount:" + ns + ":powerless")
	failing := newOperator(t, operatorConfig{ns: ns, config: powerless, hooks: []webhooks.Hook{validate(accept)}})
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	g.Expect(failing.mgr.Start(limited)).To(MatchError(And(ContainSubstring("the operator lacks permissions"), ContainSubstring("forbidden"))))

	name := ns + ".example.com"
	applyRBAC(t, ns, name, "operator", allRules)
	called := &recorder{}
	op := start(t, operatorConfig{ns: ns, name: name, config: impersonate("system:serviceaccount:" + ns + ":operator"),
		options: func(o *webhooks.Options) {
			o.Exit = webhooks.RemoveOnExit
			o.Certificates = frequentRotation
		},
		hooks: []webhooks.Hook{validate(func(context.Context, *widgetRequest) error { called.add("x"); return nil }), mutate(accept)},
	})
	awaitHandlers(t, op, called)
	first := servedCertificate(t, ns)
	g.Eventually(func() string { return servedCertificate(t, ns) }).ShouldNot(Equal(first), "want a rotated Secret")
	g.Expect(k8s.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "webhook-certificates"}})).To(Succeed())
	g.Eventually(func() string { return servedCertificate(t, ns) }).ShouldNot(BeEmpty(), "want a recreated Secret")
	live := emptyConfigurations(name)[0]
	g.Expect(k8s.Patch(ctx, live, client.RawPatch(types.MergePatchType, []byte(`{"webhooks":[]}`)))).To(Succeed())
	g.Eventually(func() []string { return entryNames(name) }).Should(HaveLen(2))
	g.Expect(op.stop()).To(Succeed())
	g.Expect(entryNames(name)).To(BeEmpty())
	g.Expect(op.log.String()).NotTo(ContainSubstring("forbidden"))
}

// Each rule of config/rbac is necessary. Without it, the operator stops with an error that names the rule.
func TestPermissions_AreNecessary(t *testing.T) {
	t.Parallel() // the test mostly waits
	needServer(t)
	var all []permission
	for _, resource := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
		for _, verb := range []string{"get", "list", "watch", "create", "patch", "delete"} {
			all = append(all, permission{verb, resource})
		}
	}
	for _, verb := range []string{"get", "list", "watch", "create", "update"} {
		all = append(all, permission{verb, "secrets"})
	}
	// Creating certificates is slow. The test creates one for the right host and one for another host.
	good, stale := certificateFor(t, "127.0.0.1"), certificateFor(t, "elsewhere.example.com")
	for _, missing := range all {
		t.Run(missing.verb+" "+missing.resource, func(t *testing.T) {
			g, ns := NewWithT(t), newNamespace(t)
			var given []permission
			applyRBAC(t, ns, ns+".example.com", "operator", func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
				return withoutRule(rules, missing, &given)
			})
			g.Expect(given).To(ConsistOf(slices.DeleteFunc(slices.Clone(all), func(p permission) bool { return p == missing })))
			config := impersonate("system:serviceaccount:" + ns + ":operator")
			if missing.verb == "list" {
				config.Wrap(withoutWatchList)
			}
			switch missing {
			case permission{"create", "secrets"}:
			case permission{"update", "secrets"}:
				g.Expect(k8s.Create(t.Context(), inNamespace(ns, stale))).To(Succeed())
			default:
				g.Expect(k8s.Create(t.Context(), inNamespace(ns, good))).To(Succeed())
			}
			op := newOperator(t, operatorConfig{
				ns: ns, config: config, hooks: []webhooks.Hook{validate(accept), mutate(accept)},
				options: func(o *webhooks.Options) { o.Exit = webhooks.RemoveOnExit },
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if missing.verb == "delete" {
				go func() {
					defer cancel()
					op.awaitEntries(t, 2)
				}()
			}
			ended := fmt.Sprint(op.mgr.Start(ctx))
			reported := func() string { return ended }
			if missing.verb == "delete" { // a stopping manager logs errors and does not return them
				reported = func() string { return strings.ReplaceAll(op.log.String(), `\"`, `"`) }
			}
			g.Eventually(reported).Should(And(ContainSubstring("the operator lacks permissions for its webhooks: grant the permissions in docs/admission.md"),
				ContainSubstring(fmt.Sprintf("cannot %s resource %q", missing.verb, missing.resource))), op.log.String)
		})
	}
}

type permission struct{ verb, resource string }

// withoutRule splits the rules into one rule per verb and resource, omits one, and records the others.
func withoutRule(rules []rbacv1.PolicyRule, missing permission, given *[]permission) (out []rbacv1.PolicyRule) {
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				one := *rule.DeepCopy()
				one.Resources, one.Verbs = []string{resource}, []string{verb}
				if p := (permission{verb, resource}); p != missing {
					out, *given = append(out, one), append(*given, p)
				}
			}
		}
	}
	return out
}

// withoutWatchList rejects watch requests with initial events, as older API servers do. Newer API servers need no list
// requests.
func withoutWatchList(next http.RoundTripper) http.RoundTripper {
	return roundTripFunc(func(r *http.Request) (*http.Response, error) {
		if !r.URL.Query().Has("sendInitialEvents") {
			return next.RoundTrip(r)
		}
		return &http.Response{
			StatusCode: http.StatusUnprocessableEntity, Request: r, Header: http.Header{},
			Body: io.NopCloser(strings.NewReader("sendInitialEvents is unknown")),
		}, nil
	})
}

// certificateFor returns a Secret like the Secret that an operator creates.
func certificateFor(t *testing.T, host string) *corev1.Secret {
	t.Helper()
	bundle, _, _, err := webhooks.NewRotation(time.Hour, time.Minute, []string{host}).Advance(webhooks.CertBundle{}, time.Now(), false)
	must(err)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "webhook-certificates"}, Type: corev1.SecretTypeTLS}
	_, err = webhooks.StoreAndParse(bundle, secret)
	must(err)
	return secret
}

func inNamespace(ns string, secret *corev1.Secret) *corev1.Secret {
	secret = secret.DeepCopy()
	secret.Namespace = ns
	return secret
}
