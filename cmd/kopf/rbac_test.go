package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

var update = flag.Bool("update", false, "write the golden files")

const neededRoles = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: databases, namespace: system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: databases}
rules:
- {apiGroups: [example.com], resources: [databases], verbs: [get, list, watch, patch]}
- {apiGroups: [example.com], resources: [databases/status], verbs: [patch]}
- {apiGroups: [""], resources: [secrets], resourceNames: [certificates], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: databases, namespace: system}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}
`

const grantedRoles = `
apiVersion: v1
kind: List
items:
- apiVersion: rbac.authorization.k8s.io/v1
  kind: ClusterRole
  metadata: {name: databases}
  rules:
  - {apiGroups: [example.com], resources: ["*"], verbs: [get, list, watch]}
  - {apiGroups: [""], resources: [secrets], verbs: [get]}
- apiVersion: rbac.authorization.k8s.io/v1
  kind: Role
  metadata: {name: databases, namespace: system}
  rules:
  - {apiGroups: [coordination.k8s.io], resources: [leases], verbs: ["*"]}
`

func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "roles.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// golden compares the output and the error of a command with a file.
func golden(t *testing.T, file string, args ...string) {
	t.Helper()
	out, err := kopf(t, args...)
	if err != nil {
		out += "error: " + err.Error() + "\n"
	}
	file = filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out); diff != "" {
		t.Errorf("%s differs (write it with -update):\n%s", file, diff)
	}
}

func TestRBACVerify_Files(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	needed, granted := writeFile(t, neededRoles), writeFile(t, grantedRoles)
	golden(t, "rbac-same.golden", "rbac", "verify", needed, "--against", needed, "--excess")
	golden(t, "rbac-against.golden", "rbac", "verify", needed, "--against", granted)
	golden(t, "rbac-excess.golden", "rbac", "verify", needed, "--against", granted, "--excess", "-o", "yaml")
	golden(t, "rbac-namespaces.golden", "rbac", "verify", needed, "--against", granted, "-n", "one", "-n", "two", "-o", "json")
}

func TestRBACVerify_Errors(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	needed := writeFile(t, neededRoles)
	const role = "apiVersion: rbac.authorization.k8s.io/v1\n"
	for args, want := range map[string]string{
		"":                                   "requires at least 1 arg",
		"/nowhere":                           "no such file",
		needed:                               "no access to a cluster",
		needed + " --as x --against y":       "are mutually exclusive",
		needed + " --as-group x":             "needs --as",
		needed + " --namespace=,x":           "--namespace is empty",
		needed + " -o xml":                   "use table, json or yaml",
		needed + " --against /nowhere":       "/nowhere: open /nowhere",
		writeFile(t, "kind: List\nitems: 3"): "reading the roles",
		writeFile(t, role+"kind: Role\nmetadata: {name: r}\nrules: []"):                                        `"r" has no namespace`,
		writeFile(t, role+"kind: ClusterRole\nmetadata: {name: r}\nrules:\n- {apigroups: [x], resource: [y]}"): "unknown field",
		writeFile(t, role+"kind: ClusterRole\nmetadata: {name: r}\nrules:\n- {resources: [y], verbs: [get]}"):  "without apiGroups",
		writeFile(t, "apiVersion: example.com/v1\nkind: ClusterRole\nrules: []"):                               "there are no roles",
		"- --against -":              "be read only once",
		writeFile(t, "kind: Secret"): "there are no roles",
		writeFile(t, role+"kind: ClusterRole\nmetadata: {name: all}\naggregationRule: {}\nrules: []"):                         `"all" is aggregated`,
		writeFile(t, role+"kind: ClusterRole\nmetadata: {name: urls}\nrules:\n- {nonResourceURLs: [/metrics], verbs: [get]}"): `"urls" has a rule for URLs`,
	} {
		if out, err := kopf(t, append([]string{"rbac", "verify"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %s; output:\n%s", args, err, want, out)
		}
	}
}

func TestRBACVerify_Users(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	cp, err := controlplane.Start(controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := cp.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	c, err := client.New(cp.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	subject := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "system", Name: "databases"}}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "system"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "databases"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"example.com"}, Resources: []string{"databases"}, Verbs: []string{"get", "list", "watch", "delete"}},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "databases"}, Subjects: subject,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "databases"}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "databases"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"}},
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "databases"}, Subjects: subject,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "databases"}},
	} {
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	// The authorizer of the API server receives new roles through watches.
	for _, attributes := range []authorizationv1.ResourceAttributes{
		{Group: "example.com", Resource: "databases", Verb: "get"},
		{Namespace: "system", Group: "coordination.k8s.io", Resource: "leases", Verb: "get"},
	} {
		eventually(t, func() bool {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "system:serviceaccount:system:databases", ResourceAttributes: &attributes,
			}}
			must(t, c.Create(t.Context(), review))
			return review.Status.Allowed
		})
	}
	needed := writeFile(t, neededRoles)
	golden(t, "rbac-administrator.golden", "rbac", "verify", needed)
	golden(t, "rbac-service-account.golden", "rbac", "verify", needed, "--as", "system:serviceaccount:system:databases", "--excess")
	golden(t, "rbac-user.golden", "rbac", "verify", needed, "--as", "jane", "--as-group", "team")
}
