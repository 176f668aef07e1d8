package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	shopv1 "github.com/kopf-runtime/kopf-runtime/examples/kubebuilder/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
)

var roleFile = filepath.Join("..", "..", "config", "rbac", "role.yaml")

// The file must contain the permissions that the manager needs. "make manifests" writes it.
func TestRights(t *testing.T) {
	known := runtime.NewScheme()
	if err := shopv1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	kopftest.CheckRights(t, roleFile, known, rights.Options{Name: "manager-role"},
		(&OrderHandlers{}).orders(), (&ParcelReconciler{}).parcels(), parcelNeeds(), InvoiceNeeds())
}

// setup adds all controllers to a manager, as cmd/main.go does.
func setup(mgr ctrl.Manager) error {
	return errors.Join(
		(&OrderHandlers{Warehouse: NewWarehouse(nil)}).SetupWithManager(mgr, InvoiceNeeds()),
		(&InvoiceReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}).SetupWithManager(mgr),
		(&ParcelReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}).SetupWithManager(mgr),
	)
}

var _ = Describe("Role of the manager", func() {
	It("is sufficient for the reconciler of invoices", func(ctx SpecContext) {
		cluster.WithRights(GinkgoTB(), roleFile).RunManager(GinkgoTB(), func(mgr ctrl.Manager) error {
			return (&InvoiceReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}).SetupWithManager(mgr)
		})
		invoice := &shopv1.Invoice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "june"},
			Spec:       shopv1.InvoiceSpec{Cents: 1000},
		}
		Expect(k8sClient.Create(ctx, invoice)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(k8sClient.Delete(ctx, invoice)).To(Succeed()) })
		Eventually(func() (int64, error) {
			err := k8sClient.Get(ctx, client.ObjectKeyFromObject(invoice), invoice)
			return invoice.Status.Total, err
		}).Should(BeEquivalentTo(1190))
	})

	It("has no permission whose absence the manager does not report", func(ctx SpecContext) {
		role := managerRole()
		all := permissionsOf(role)
		Expect(all).NotTo(BeEmpty())
		started := time.Now()
		for i, removed := range all {
			By("removing " + removed.String())
			role.Rules = nil
			for _, p := range slices.Concat(all[:i], all[i+1:]) {
				role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{p.group}, Resources: []string{p.resource}, Verbs: []string{p.verb}})
			}
			expectNamed(ctx, role, removed, all)
		}
		AddReportEntry("removed", fmt.Sprintf("%d permissions were removed one by one in %s", len(all), time.Since(started).Round(time.Second)))
	})
})

// expectNamed starts the manager with a role that lacks a permission, and expects that its log or its error names exactly this permission.
func expectNamed(ctx context.Context, role *rbacv1.ClusterRole, removed permission, all []permission) {
	GinkgoHelper()
	text, err := json.Marshal(role) // JSON is also YAML
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(GinkgoT().TempDir(), "role.yaml")
	Expect(os.WriteFile(file, text, 0o600)).To(Succeed())

	output := gbytes.NewBuffer()
	options := ctrl.Options{Scheme: scheme.Scheme, Logger: zap.New(zap.WriteTo(output))}
	options.Metrics.BindAddress = "0"
	options.Controller.SkipNameValidation = new(true) // the names of the controllers are unique in a process
	mgr, err := ctrl.NewManager(cluster.WithRights(GinkgoTB(), file).Config, options)
	Expect(err).NotTo(HaveOccurred())
	Expect(setup(mgr)).To(Succeed())
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := mgr.Start(ctx); err != nil {
			_, _ = fmt.Fprintln(output, err)
		}
	}()
	defer func() {
		stop()
		<-ended
	}()
	log := func() string { return string(output.Contents()) }
	named := func() (found []permission) {
		for _, p := range all {
			if p.isNamedIn(log()) {
				found = append(found, p)
			}
		}
		return found
	}
	Eventually(named).Should(Equal([]permission{removed}), log)
	Consistently(named).WithTimeout(300*time.Millisecond).Should(Equal([]permission{removed}), log)
}

// A permission allows one verb for one resource.
type permission struct{ verb, resource, group string }

// String returns the permission as the manager names it.
func (p permission) String() string {
	resource, subresource, found := strings.Cut(p.resource, "/")
	if found {
		subresource = "/" + subresource
	}
	return fmt.Sprintf("%s %s.%s%s in the cluster", p.verb, resource, p.group, subresource)
}

// isNamedIn reports whether a text contains the permission, as the manager or the API server names it.
func (p permission) isNamedIn(text string) bool {
	denied := fmt.Sprintf(`cannot %s resource \\*"%s\\*" in API group \\*"%s\\*"`, p.verb, regexp.QuoteMeta(p.resource), regexp.QuoteMeta(p.group))
	return strings.Contains(text, p.String()) || regexp.MustCompile(denied).MatchString(text)
}

func permissionsOf(role *rbacv1.ClusterRole) (all []permission) {
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, permission{verb, resource, group})
				}
			}
		}
	}
	return all
}

// managerRole returns the role in the file.
func managerRole() *rbacv1.ClusterRole {
	GinkgoHelper()
	text, err := os.ReadFile(roleFile)
	Expect(err).NotTo(HaveOccurred())
	role := &rbacv1.ClusterRole{}
	Expect(yaml.UnmarshalStrict(text, role)).To(Succeed())
	return role
}
