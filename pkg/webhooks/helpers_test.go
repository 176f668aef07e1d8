package webhooks_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

var errTest = errors.New("the database has the password 1234")

func unstructuredSet(obj *unstructured.Unstructured, value any, path ...string) {
	must(unstructured.SetNestedField(obj.Object, value, path...))
}

// impersonate returns a configuration for another user.
func impersonate(user string) *rest.Config {
	config := rest.CopyConfig(cp.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	return config
}

// applyRBAC applies config/rbac for an operator with another name and changed rules. It waits until the rules take
// effect.
func applyRBAC(t *testing.T, ns, name, account string, change func([]rbacv1.PolicyRule) []rbacv1.PolicyRule) {
	t.Helper()
	text, err := os.ReadFile("../../config/rbac/webhooks_role.yaml")
	must(err)
	renamed := strings.NewReplacer(
		"namespace: system", "namespace: "+ns, "name: operator", "name: "+account,
		"name: databases-webhooks", "name: "+ns, "databases.example.com", name,
	).Replace(string(text))
	for document := range strings.SplitSeq(renamed, "---\n") {
		var kind metav1.TypeMeta
		must(yaml.Unmarshal([]byte(document), &kind))
		obj, err := scheme.New(kind.GroupVersionKind())
		must(err)
		must(yaml.UnmarshalStrict([]byte(document), obj))
		switch role := obj.(type) {
		case *rbacv1.ClusterRole:
			role.Rules = change(role.Rules)
		case *rbacv1.Role:
			role.Rules = change(role.Rules)
		}
		must(k8s.Create(t.Context(), obj.(client.Object)))
	}
	for _, attributes := range []authorizationv1.ResourceAttributes{
		{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations", Name: name},
		{Namespace: ns, Resource: "secrets", Name: "webhook-certificates"},
	} {
		NewWithT(t).Eventually(func() bool {
			return isAnyAllowed(t, "system:serviceaccount:"+ns+":"+account, attributes, "get", "list")
		}).Should(BeTrue(), "the rules must take effect")
	}
}

// isAnyAllowed reports whether a user may use one of the verbs.
func isAnyAllowed(t *testing.T, user string, attributes authorizationv1.ResourceAttributes, verbs ...string) bool {
	return slices.ContainsFunc(verbs, func(verb string) bool {
		attributes.Verb = verb
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &attributes}}
		must(k8s.Create(t.Context(), review))
		return review.Status.Allowed
	})
}

func allRules(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule { return rules }

// servedCertificate returns the certificate in the Secret.
func servedCertificate(t testing.TB, ns string) string {
	return string(secretOf(t, ns).Data[corev1.TLSCertKey])
}

// secretOf returns the Secret of the certificates, or an empty Secret.
func secretOf(t testing.TB, ns string) *corev1.Secret {
	secret := &corev1.Secret{}
	must(client.IgnoreNotFound(k8s.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "webhook-certificates"}, secret)))
	return secret
}
