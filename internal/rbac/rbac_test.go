package rbac_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

func forbidden(group, resource, name, why string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: resource}, name,
		fmt.Errorf(`User "system:serviceaccount:shop:operator" %s`, why))
}

func TestExplain(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want string // the appended text
	}{
		{
			"list in the cluster",
			forbidden("example.com", "databases", "", `cannot list resource "databases" in API group "example.com" at the cluster scope`),
			"add an RBAC rule with apiGroups: [example.com], resources: [databases], verbs: [list, watch] for the whole cluster (a ClusterRole); " +
				"kubebuilder marker: // +kubebuilder:rbac:groups=example.com,resources=databases,verbs=list;watch",
		},
		{
			"watch in a namespace",
			forbidden("example.com", "databases", "", `cannot watch resource "databases" in API group "example.com" in the namespace "shop"`),
			`resources: [databases], verbs: [list, watch] for the namespace "shop" (a Role, or a ClusterRole)`,
		},
		{
			"a status",
			forbidden("example.com", "databases", "orders", `cannot patch resource "databases/status" in API group "example.com" in the namespace "shop"`),
			"+kubebuilder:rbac:groups=example.com,resources=databases/status,verbs=patch",
		},
		{
			"the core group",
			forbidden("", "secrets", "certs", `cannot get resource "secrets" in API group "" in the namespace "shop"`),
			`apiGroups: [""], resources: [secrets], verbs: [get] for the namespace "shop" (a Role, or a ClusterRole); kubebuilder marker: // +kubebuilder:rbac:groups="",resources=secrets,verbs=get`,
		},
		{
			"Events",
			forbidden("events.k8s.io", "events", "", `cannot create resource "events" in API group "events.k8s.io" in the namespace "shop"`),
			"groups=events.k8s.io,resources=events,verbs=create",
		},
		{
			"leases",
			forbidden("coordination.k8s.io", "leases", "lock", `cannot update resource "leases" in API group "coordination.k8s.io" in the namespace "shop"`),
			"groups=coordination.k8s.io,resources=leases,verbs=update",
		},
		{
			"webhook configurations",
			forbidden("admissionregistration.k8s.io", "validatingwebhookconfigurations", "shop",
				`cannot patch resource "validatingwebhookconfigurations" in API group "admissionregistration.k8s.io" at the cluster scope`),
			"groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,verbs=patch",
		},
		{
			"with an explanation of the authorizer",
			forbidden("example.com", "databases", "", `cannot get resource "databases" in API group "example.com" in the namespace "shop": RBAC: role "x" not found`),
			"verbs=get",
		},
		{
			"a wrapped error, or only its text",
			fmt.Errorf("writing the object: %w", errors.New(`User "x" cannot patch resource "pods/status" in API group "" in the namespace "shop"`)),
			"resources=pods/status,verbs=patch",
		},
		{"without a scope", errors.New(`cannot patch resource "pods" in API group ""`), "verbs: [patch]; kubebuilder marker"},
		{
			"two missing rules",
			errors.Join(errors.New(`cannot get resource "pods" in API group "" at the cluster scope`),
				errors.New(`cannot patch resource "nodes" in API group "" at the cluster scope`),
				errors.New(`cannot get resource "pods" in API group "" at the cluster scope`)),
			"verbs=get; add an RBAC rule with",
		},
		{
			"owner references",
			forbidden("", "configmaps", "one", `cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>`),
			"verbs=update",
		},
		{"a denial of a webhook", forbidden("example.com", "databases", "orders", `admission webhook "limits.example.com" denied the request: too large`), ""},
		{"another error", apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "one"), ""},
		{"an error without a status", errors.New("connection refused"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := rbac.Explain(test.err)
			added, found := strings.CutPrefix(got.Error(), test.err.Error())
			if !found || !strings.Contains(added, test.want) || test.want == "" && added != "" {
				t.Errorf("got %q, want it to contain %q", got, test.want)
			}
			if !errors.Is(got, test.err) || apierrors.IsForbidden(got) != apierrors.IsForbidden(test.err) {
				t.Error("the result does not wrap the error")
			}
			if again := rbac.Explain(fmt.Errorf("starting: %w", got)); strings.Count(again.Error(), "add an RBAC rule") != strings.Count(got.Error(), "add an RBAC rule") {
				t.Errorf("the rule is added again: %q", again)
			}
		})
	}
	if rbac.Explain(nil) != nil {
		t.Error("Explain(nil) returns an error, want nil")
	}
}
