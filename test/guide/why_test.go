package guide

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// The commands of docs/why.md write a token of a user who may read the status page.
func TestWhy_TokenOfThePage(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs an API server")
	}
	g := NewWithT(t)
	k8s, err := client.New(cfg, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	const page = "../../docs/why.md"
	role := &rbacv1.ClusterRole{}
	for _, s := range steps(t, page) {
		if s.Language == "yaml" {
			g.Expect(yaml.UnmarshalStrict([]byte(s.Text), role)).To(Succeed())
		}
	}
	g.Expect(k8s.Create(t.Context(), role)).To(Succeed())
	g.Expect(client.IgnoreAlreadyExists(k8s.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))).To(Succeed())

	folder := t.TempDir()
	shell := terminal(t, folder)
	typed := commands(t, page)
	g.Expect(typed).To(HaveLen(3), "the page has other commands; add their results to the test")
	for _, command := range typed {
		_, err := shell.Type(t.Context(), command)
		g.Expect(err).NotTo(HaveOccurred())
	}
	token, err := os.ReadFile(filepath.Join(folder, "token"))
	g.Expect(err).NotTo(HaveOccurred())
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: strings.TrimSpace(string(token))}}
	g.Expect(k8s.Create(t.Context(), review)).To(Succeed())
	g.Expect(review.Status.User.Username).To(Equal("system:serviceaccount:shop:status-reader"))
	g.Eventually(func() (bool, error) {
		access := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: review.Status.User.Username, NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/kopf/objects", Verb: "get"},
		}}
		err := k8s.Create(t.Context(), access)
		return access.Status.Allowed, err
	}).WithTimeout(30 * time.Second).Should(BeTrue())
}
