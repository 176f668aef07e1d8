package rbac_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

func TestMissing(t *testing.T) {
	rule := func(group, resource, name string, verbs ...string) rbacv1.PolicyRule {
		return rbac.Need{Group: group, Resource: resource, Name: name, Verbs: verbs}.Rule()
	}
	databases := rbac.Need{Group: "example.com", Resource: "databases", Verbs: []string{"list", "watch"}}
	status := rbac.Need{Group: "example.com", Resource: "databases/status", Verbs: []string{"patch"}}
	secret := rbac.Need{Resource: "secrets", Name: "one", Verbs: []string{"get"}}
	for name, test := range map[string]struct {
		rules []rbacv1.PolicyRule
		need  rbac.Need
		want  []string
	}{
		"none":                              {nil, databases, []string{"list", "watch"}},
		"one verb":                          {[]rbacv1.PolicyRule{rule("example.com", "databases", "", "list")}, databases, []string{"watch"}},
		"two rules":                         {[]rbacv1.PolicyRule{rule("example.com", "databases", "", "list"), rule("example.com", "databases", "", "watch")}, databases, nil},
		"all verbs":                         {[]rbacv1.PolicyRule{rule("example.com", "databases", "", "*")}, databases, nil},
		"all groups":                        {[]rbacv1.PolicyRule{rule("*", "databases", "", "list", "watch")}, databases, nil},
		"all resources":                     {[]rbacv1.PolicyRule{rule("example.com", "*", "", "list", "watch")}, databases, nil},
		"another group":                     {[]rbacv1.PolicyRule{rule("", "databases", "", "*")}, databases, []string{"list", "watch"}},
		"one object":                        {[]rbacv1.PolicyRule{rule("example.com", "databases", "one", "*")}, databases, []string{"list", "watch"}},
		"a resource without its status":     {[]rbacv1.PolicyRule{rule("example.com", "databases", "", "*")}, status, []string{"patch"}},
		"all resources with their status":   {[]rbacv1.PolicyRule{rule("example.com", "*", "", "patch")}, status, nil},
		"the status of all resources":       {[]rbacv1.PolicyRule{rule("example.com", "*/status", "", "patch")}, status, nil},
		"the scale of all resources":        {[]rbacv1.PolicyRule{rule("example.com", "*/scale", "", "patch")}, status, []string{"patch"}},
		"the object":                        {[]rbacv1.PolicyRule{rule("", "secrets", "one", "get")}, secret, nil},
		"another object":                    {[]rbacv1.PolicyRule{rule("", "secrets", "two", "get")}, secret, []string{"get"}},
		"all objects":                       {[]rbacv1.PolicyRule{rule("", "secrets", "", "get")}, secret, nil},
		"a resource with this name as part": {[]rbacv1.PolicyRule{rule("", "secretstores", "", "get")}, secret, []string{"get"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, rbac.Missing(test.rules, test.need)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// ReadRoles reads what WriteRoles writes.
func TestWriteRoles_ReadRoles(t *testing.T) {
	needs := []rbac.Need{
		{Resource: "secrets", Name: "true", Verbs: []string{"get"}, Reason: "a name that YAML does not take for a string"},
		{Resource: "secrets", Verbs: []string{"create"}, Reason: "no name"},
		{Group: "*", Resource: "*", Verbs: []string{"watch"}, Reason: "everything"},
		{Group: "example.com", Resource: "databases", Namespace: "123", Verbs: []string{"patch"}, Reason: "one"},
		{Group: "example.com", Resource: "databases", Namespace: "123", Verbs: []string{"get", "patch"}, Reason: "two"},
		{Group: "example.com", Resource: "rows", Namespace: "null", Verbs: []string{"*"}, Reason: "all verbs"},
		{Group: "example.com", Resource: "databases", Namespace: "null", Verbs: []string{"get"}, Reason: "one"},
	}
	var out bytes.Buffer
	if err := rbac.WriteRoles(&out, rbac.Options{Name: "r", ServiceAccount: "on", Namespace: "yes"}, needs); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "# one; two\n") || strings.Count(text, "kind: RoleBinding\n") != 2 || strings.Count(text, "kind: ClusterRoleBinding\n") != 1 {
		t.Errorf("want the comment with both reasons, two RoleBindings and one ClusterRoleBinding, got:\n%s", text)
	}
	got, err := rbac.ReadRoles(&out)
	if err != nil {
		t.Fatal(err)
	}
	want := rbac.Merge(needs)
	for i := range want {
		want[i].Reason = ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if slices.ContainsFunc(got, func(n rbac.Need) bool { return n.Level != rbac.Optional }) {
		t.Error("permissions that were read have a level")
	}
}
