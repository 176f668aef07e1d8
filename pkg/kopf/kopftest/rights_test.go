package kopftest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
)

// vaults returns an operator whose handler creates a Secret.
func vaults() *kopf.Resource[*corev1.ConfigMap] {
	return kopf.For(&corev1.ConfigMap{}).OnCreate("lock", func(ctx context.Context, req *cmRequest) error {
		secret := &corev1.Secret{}
		secret.Namespace, secret.Name = req.Object.Namespace, req.Object.Name
		return client.IgnoreAlreadyExists(req.Client.Create(ctx, secret))
	}, kopf.Backoff(100*time.Millisecond))
}

// writeRole writes the roles of an operator into a file.
func writeRole(t *testing.T, opts ...kopf.Option) (file string) {
	t.Helper()
	var text strings.Builder
	if err := kopf.WriteRights(&text, clientgoscheme.Scheme, rights.Options{Name: "vaults"}, opts...); err != nil {
		t.Fatal(err)
	}
	return writeFile(t, text.String())
}

func writeFile(t *testing.T, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "rbac.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The role of an operator does not permit what its handlers do without Needs.
func TestCluster_WithRights(t *testing.T) {
	for _, c := range []struct {
		name  string
		needs []kopf.Option
		err   OmegaMatcher
	}{
		{"undeclared", nil, WithTransform(apierrors.IsForbidden, BeTrue())},
		{"declared", []kopf.Option{kopf.Needs(&corev1.Secret{}, "create")}, BeNil()},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, cluster := NewWithT(t), needServer(t)
			g.SetDefaultEventuallyTimeout(20 * time.Second)
			operator := cluster.WithRights(t, writeRole(t, append(c.needs, vaults())...)).Run(t, vaults())
			obj := newPicture("orders", "red")
			cluster.Create(t, obj) // with all permissions
			g.Eventually(operator.Calls).Should(ContainElement(HaveField("Ended.IsZero()", false)))
			g.Expect(operator.Calls()[0].Err).To(c.err)
		})
	}
}

// The test kit serves admission handlers of an operator whose role does not permit it.
func TestCluster_WithRights_Admission(t *testing.T) {
	g, cluster := NewWithT(t), needServer(t)
	g.SetDefaultEventuallyTimeout(20 * time.Second)
	options := admissionHandlers()[:1]
	cluster.WithRights(t, writeRole(t, admissionHandlers()[:1]...)).Run(t, options...)
	g.Eventually(func() error { return tryCreate(t, cluster, newPicture("pale", "")) }).Should(MatchError(ContainSubstring("it has no color")))
}

func TestCluster_WithRights_RolesInNamespaces(t *testing.T) {
	g, cluster := NewWithT(t), needServer(t)
	role := func(namespace string) string {
		return "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a, namespace: " + namespace +
			"}\nrules:\n- apiGroups: ['']\n  resources: [configmaps]\n  verbs: [list]\n"
	}
	lists := func(c *kopftest.Cluster, namespace string) error {
		return listAs(t, c, namespace, &corev1.ConfigMapList{})
	}
	created := cluster.Namespace + "-created"
	restricted := cluster.WithRights(t, writeFile(t, role(cluster.Namespace)+"---\n"+role(created)))
	g.Expect(lists(restricted, cluster.Namespace)).To(Succeed())
	g.Expect(lists(restricted, created)).To(Succeed())
	g.Expect(lists(restricted, "default")).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
	g.Expect(lists(cluster, "default")).To(Succeed())
}

// listAs lists objects with the permissions of an operator.
func listAs(t *testing.T, c *kopftest.Cluster, namespace string, list client.ObjectList) (err error) {
	t.Helper()
	c.RunManager(t, func(mgr manager.Manager) error {
		err = mgr.GetAPIReader().List(t.Context(), list, client.InNamespace(namespace))
		return nil
	})
	return err
}

// The test kit reads and writes Secrets and webhook configurations for its webhook server. Operators have no permission for others.
func TestCluster_WithRights_ObjectsOfTheTestKit(t *testing.T) {
	g, cluster := NewWithT(t), needServer(t)
	restricted := cluster.WithRights(t, writeRole(t, vaults()))
	g.Expect(listAs(t, restricted, "kube-system", &corev1.SecretList{})).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
	g.Expect(listAs(t, restricted, "", &admissionregistrationv1.ValidatingWebhookConfigurationList{})).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
}

func TestCluster_WithRights_Errors(t *testing.T) {
	missing, server := filepath.Join(t.TempDir(), "missing.yaml"), &kopftest.Cluster{Config: &rest.Config{}}
	for _, c := range []struct {
		name, file, want string
		cluster          *kopftest.Cluster
	}{
		{"a cluster in memory", missing, "kopftest: WithRights needs an Environment", kopftest.Memory(t)},
		{"a cluster without a Config", missing, "the cluster has no Config", &kopftest.Cluster{}},
		{"a restricted cluster", missing, "the cluster is already restricted", &kopftest.Cluster{Config: &rest.Config{
			Impersonate: rest.ImpersonationConfig{UserName: "kopftest-other"},
		}}},
		{"no file", missing, "kopftest: open " + missing, server},
		{"no role", writeFile(t, "kind: Namespace\napiVersion: v1\n"), "there are no roles: pass a file with a ClusterRole or a Role", server},
		{"no namespace", writeFile(t, "kind: Role\napiVersion: rbac.authorization.k8s.io/v1\nmetadata: {name: a}\n"), `the Role "a" has no namespace: add it`, server},
	} {
		t.Run(c.name, func(t *testing.T) {
			NewWithT(t).Expect(failureOf(t, func(t testing.TB) { c.cluster.WithRights(t, c.file) })).To(ContainSubstring(c.want))
		})
	}
}

func TestOperator_UsedRights(t *testing.T) {
	g, cluster := NewWithT(t), needServer(t)
	operator := cluster.Run(t, vaults().OnCreate("review", func(ctx context.Context, req *cmRequest) error {
		return errors.Join(
			req.Client.Create(ctx, &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}),
			req.Client.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "me", NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/", Verb: "get"},
			}}),
		)
	}))
	cluster.Create(t, newPicture("orders", "red"))
	operator.RunUntilQuiet(t)
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	g.Expect(operator.UsedRights()).To(ConsistOf(
		rule("", "configmaps", "list", "watch", "patch"), rule("", "secrets", "create"),
		rule("authorization.k8s.io", "subjectaccessreviews", "create"),
	))
}
