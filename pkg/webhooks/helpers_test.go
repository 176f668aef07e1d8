package webhooks_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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

// applyRBAC applies config/rbac for an operator of another name.
func applyRBAC(t *testing.T, ns, name, account string) {
	t.Helper()
	text, err := os.ReadFile("../../config/rbac/webhooks_role.yaml")
	must(err)
	renamed := strings.NewReplacer(
		"namespace: system", "namespace: "+ns, "name: operator", "name: "+account,
		"name: databases-webhooks", "name: "+ns, "databases.example.com", name,
	).Replace(string(text))
	for document := range strings.SplitSeq(renamed, "---\n") {
		obj := &unstructured.Unstructured{}
		must(yaml.Unmarshal([]byte(document), &obj.Object))
		must(k8s.Create(t.Context(), obj))
	}
}

// servedCA is the certificate in the Secret.
func servedCA(t testing.TB, ns string) string {
	secret := &corev1.Secret{}
	must(client.IgnoreNotFound(k8s.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "webhook-certificates"}, secret)))
	return string(secret.Data[corev1.TLSCertKey])
}
