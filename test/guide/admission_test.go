package guide

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// The tests of this file check the code of docs/admission.md for kubebuilder projects.

const admissionPage = "../../docs/admission.md"

func orderWebhooks() webhooks.Options {
	return webhooks.Options{
		Name:           "orders.shop.example.com",
		Configurations: webhooks.Managed,
		Certificates:   webhooks.SelfManaged{},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			Service: &admissionregistrationv1.ServiceReference{Name: "shop-webhook-service"},
		},
	}
}

// The API server knows every field of the manifests. The Service in the options has the name that kustomize generates.
func TestManifestsOfAdmission(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs an API server")
	}
	g := NewWithT(t)
	objects := manifests(t, admissionPage)
	g.Expect(objects).To(HaveLen(2))
	expectAccepted(t, g, "system", objects)
	g.Expect(objects).To(HaveKey("RoleBinding manager-rolebinding"))
	service := objects["Service webhook-service"]
	g.Expect(service).NotTo(BeNil())
	g.Expect(orderWebhooks().ClientConfig.Service.Name).To(Equal("shop-" + service.GetName()))
}

// The markers of the page generate the same rules as config/rbac/webhooks_role.yaml, except for the name.
func TestMarkersOfAdmission(t *testing.T) {
	g := NewWithT(t)
	var marked, ruled []rbacv1.PolicyRule
	for _, s := range steps(t, admissionPage) {
		for line := range strings.Lines(s.Text) {
			if marker, ok := strings.CutPrefix(strings.TrimSpace(line), "// +kubebuilder:rbac:"); ok {
				marked = append(marked, ruleOf(g, marker))
			}
		}
	}
	file, err := os.ReadFile("../../config/rbac/webhooks_role.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	for document := range bytes.SplitSeq(bytes.ReplaceAll(file, []byte("databases.example.com"), []byte(orderWebhooks().Name)), []byte("\n---\n")) {
		var role rbacv1.ClusterRole // a Role has the same fields
		g.Expect(yaml.Unmarshal(document, &role)).To(Succeed())
		ruled = append(ruled, role.Rules...)
	}
	g.Expect(ruled).To(HaveLen(4))
	g.Expect(marked).To(ConsistOf(ruled[0], ruled[1], ruled[2], ruled[3]))
}

var argument = regexp.MustCompile(`(\w+)=("[^"]*"|[^,]*)`)

func ruleOf(g *WithT, marker string) (rule rbacv1.PolicyRule) {
	for _, found := range argument.FindAllStringSubmatch(marker, -1) {
		values := strings.Split(strings.Trim(found[2], `"`), ";")
		switch found[1] {
		case "groups":
			rule.APIGroups = values
		case "resources":
			rule.Resources = values
			g.Expect(strings.Contains(marker, "namespace=system")).To(Equal(values[0] == "secrets"), "only rules for Secrets may have a namespace")
		case "resourceNames":
			rule.ResourceNames = values
		case "verbs":
			rule.Verbs = values
		default:
			g.Expect(found[1]).To(Equal("namespace"), marker)
		}
	}
	return rule
}

// The options of the page generate the rules of its markers.
func TestRightsOfAdmission(t *testing.T) {
	g := NewWithT(t)
	row := featureRow{options: []kopf.Option{featureRows()[0].options[0], kopf.WithWebhooks(orderWebhooks())}}
	row.rights.Namespace = "system"
	var marked []rbac.Need
	for _, s := range steps(t, admissionPage) {
		for line := range strings.Lines(s.Text) {
			marker, ok := strings.CutPrefix(strings.TrimSpace(line), "// +kubebuilder:rbac:")
			if !ok {
				continue
			}
			namespace := ""
			if strings.Contains(marker, "namespace=system") {
				namespace = "system"
			}
			marked = append(marked, rbac.NeedsOf(ruleOf(g, marker), namespace)...)
		}
	}
	g.Expect(marked).NotTo(BeEmpty())
	g.Expect(neededFor(t, row)).To(ConsistOf(rbac.Merge(append(marked, neededFor(t, featureRows()[0])...))))
}
