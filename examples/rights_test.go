package examples

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/hack/example/program"
	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

var removesPermissions = flag.Bool("remove-permissions", false, "remove each permission of each example in turn, which takes some minutes")

// Each permission of each example is removed in turn: the operator names exactly this permission at its start.
func TestExamples_RemovedPermissions(t *testing.T) {
	if !*removesPermissions {
		t.Skip("takes some minutes: make test-rights")
	}
	log.SetLogger(logr.Discard())
	files, err := filepath.Glob("*/config/rbac/rbac.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files found", err)
	}
	count := 0
	for _, file := range files {
		name, _, _ := strings.Cut(file, string(filepath.Separator))
		t.Run(name, func(t *testing.T) {
			cp, err := controlplane.Start(controlplane.Options{}) // of its own, because the examples have equal kinds
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := cp.Stop(); err != nil {
					t.Error(err)
				}
			}()
			e := prepare(t, cp, name)
			for _, obj := range e.manifests("samples") {
				if obj.GetKind() == "Namespace" { // the operator may select namespaces
					e.Expect(e.client.Create(t.Context(), obj)).To(Succeed())
				}
			}
			for _, role := range e.roles() {
				count += e.removeEach(role, e.allPermissions())
			}
		})
	}
	t.Logf("%d permissions were removed one by one", count)
}

// roles returns the roles of an example.
func (e *example) roles() (roles []*unstructured.Unstructured) {
	for _, obj := range e.manifests("rbac") {
		if kind := obj.GetKind(); kind == "ClusterRole" || kind == "Role" {
			roles = append(roles, obj)
		}
	}
	return roles
}

// allPermissions returns the permissions of an example, with one verb each.
func (e *example) allPermissions() (all []rbac.Need) {
	file, err := os.Open(filepath.Join(e.name, "config", "rbac", "rbac.yaml"))
	e.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = file.Close() }()
	needs, err := rbac.ReadRoles(file)
	e.Expect(err).NotTo(HaveOccurred())
	for _, n := range needs {
		for _, verb := range n.Verbs {
			n.Verbs = []string{verb}
			all = append(all, n)
		}
	}
	return all
}

// removeEach removes each verb of each rule of a role, and starts the operator. It returns the number of verbs.
func (e *example) removeEach(role *unstructured.Unstructured, all []rbac.Need) (count int) {
	complete, found, err := unstructured.NestedSlice(role.Object, "rules")
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(found).To(BeTrue())
	for i := range complete {
		rule, ok := complete[i].(map[string]any)
		e.Expect(ok).To(BeTrue())
		text := func(field string) string {
			values, _, err := unstructured.NestedStringSlice(rule, field)
			e.Expect(err).NotTo(HaveOccurred())
			if len(values) == 0 {
				return ""
			}
			e.Expect(values).To(HaveLen(1), "a generated rule has one value")
			return values[0]
		}
		verbs, _, err := unstructured.NestedStringSlice(rule, "verbs")
		e.Expect(err).NotTo(HaveOccurred())
		for _, verb := range verbs {
			removed := rbac.Need{Group: text("apiGroups"), Resource: text("resources"), Name: text("resourceNames"), Namespace: role.GetNamespace(), Verbs: []string{verb}}
			if removed.Group == "zalando.org" {
				continue // the kinds of old peering objects are not installed, so the operator does not need them
			}
			e.setRules(role, without(complete, i, verb))
			e.awaitDenied(removed)
			e.checkNamed(removed, all)
			count++
		}
	}
	e.setRules(role, complete)
	return count
}

// without returns rules without a verb of one of them.
func without(rules []any, i int, verb string) []any {
	changed := (&unstructured.Unstructured{Object: map[string]any{"rules": rules}}).DeepCopy().Object["rules"].([]any)
	rule := changed[i].(map[string]any)
	verbs := slices.DeleteFunc(rule["verbs"].([]any), func(v any) bool { return v == verb })
	if len(verbs) == 0 {
		return slices.Delete(changed, i, i+1)
	}
	rule["verbs"] = verbs
	return changed
}

func (e *example) setRules(role *unstructured.Unstructured, rules []any) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(role.GetKind()))
	e.Expect(e.client.Get(e.t.Context(), client.ObjectKeyFromObject(role), live)).To(Succeed())
	live.Object["rules"] = rules
	e.Expect(e.client.Update(e.t.Context(), live)).To(Succeed())
}

// awaitDenied waits until the authorizer of the API server knows that a permission was removed.
func (e *example) awaitDenied(n rbac.Need) {
	resource, subresource, _ := strings.Cut(n.Resource, "/")
	e.Eventually(func() bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: e.user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: n.Group, Resource: resource, Subresource: subresource, Name: n.Name, Namespace: n.Namespace, Verb: n.Verbs[0],
			},
		}}
		e.Expect(e.client.Create(e.t.Context(), review)).To(Succeed())
		return review.Status.Allowed
	}).Should(BeFalse())
}

// names reports whether log lines name a permission: as the operator does, or as the API server, whose errors the webhook server reports. A rule for all resources of a
// group is named for one of them.
func names(lines string, n rbac.Need) bool {
	resource, object := regexp.QuoteMeta(n.QualifiedResource()), ""
	if n.Resource == "*" {
		resource = `\S+\.` + regexp.QuoteMeta(n.Group)
	}
	if n.Name != "" {
		object = " named " + regexp.QuoteMeta(n.Name)
	}
	pattern := n.Verbs[0] + " " + resource + object + " in the (cluster|namespace)" // a role in some namespaces may be sufficient
	denied := fmt.Sprintf(`cannot %s resource \\?"%s\\?" in API group \\?"%s\\?"`, n.Verbs[0], regexp.QuoteMeta(n.Resource), regexp.QuoteMeta(n.Group))
	return regexp.MustCompile(pattern + "|" + denied).MatchString(lines)
}

// checkNamed starts the operator, and checks that it names exactly one permission.
func (e *example) checkNamed(removed rbac.Need, all []rbac.Need) {
	operator, err := program.Start(e.file, nil, append(e.environment, "KUBECONFIG="+e.kubeconfig)...)
	e.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = operator.Stop(10 * time.Second) }() // it may have ended with an error
	named := func() (found []string) {
		lines := strings.ReplaceAll(strings.Join(operator.Lines(), "\n"), `\n`, "\n")
		for _, n := range all {
			if names(lines, n) {
				found = append(found, n.String())
			}
		}
		return found
	}
	want := []string{removed.String()}
	e.Eventually(named).WithTimeout(20*time.Second).Should(Equal(want), func() string { return fmt.Sprintf("%s: %s", e.name, strings.Join(operator.Lines(), "\n")) })
	e.Consistently(named).WithTimeout(300 * time.Millisecond).Should(Equal(want))
}
