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

// impersonate is the access of somebody else.
func impersonate(user string) *rest.Config {
	config := rest.CopyConfig(cp.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	return config
}

// applyRBAC applies config/rbac for an operator of another name, and waits until it is in force. The rules may be
// changed before.
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
	for _, asked := range []authorizationv1.ResourceAttributes{
		{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations", Name: name},
		{Namespace: ns, Resource: "secrets", Name: "webhook-certificates"},
	} {
		NewWithT(t).Eventually(func() bool {
			return mayAny(t, "system:serviceaccount:"+ns+":"+account, asked, "get", "list")
		}).Should(BeTrue(), "the rules are in force")
	}
}

// mayAny reports whether a user may do one of some things.
func mayAny(t *testing.T, user string, what authorizationv1.ResourceAttributes, verbs ...string) bool {
	return slices.ContainsFunc(verbs, func(verb string) bool {
		what.Verb = verb
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &what}}
		must(k8s.Create(t.Context(), review))
		return review.Status.Allowed
	})
}

func nothingLess(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule { return rules }

// servedCA is the certificate in the Secret.
func servedCA(t testing.TB, ns string) string { return string(secretOf(t, ns).Data[corev1.TLSCertKey]) }

// secretOf is that of the certificates; empty if there is none.
func secretOf(t testing.TB, ns string) *corev1.Secret {
	secret := &corev1.Secret{}
	must(client.IgnoreNotFound(k8s.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "webhook-certificates"}, secret)))
	return secret
}
