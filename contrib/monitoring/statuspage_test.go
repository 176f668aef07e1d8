package monitoring_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// The metrics server of a kubebuilder project protects the status page: users need a token and the role in docs/why.md.
func TestStatusPage_IsBehindTheFilterOfTheMetricsServer(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	g, cluster := NewWithT(t), kopftest.Environment(t)
	g.SetDefaultEventuallyTimeout(30 * time.Second)
	address := freeAddress(t)
	cluster.RunManager(t, func(mgr manager.Manager) error {
		configMaps := kopf.For(&corev1.ConfigMap{}).OnCreate("copy", func(context.Context, *kopf.Request[*corev1.ConfigMap]) error { return nil })
		return kopf.SetupWithManager(mgr, configMaps, kopf.WithStatusPage())
	}, func(options *manager.Options) {
		options.Metrics = server.Options{
			BindAddress: address, SecureServing: true, FilterProvider: filters.WithAuthenticationAndAuthorization,
		}
	})
	cluster.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "orders"}})

	var namespace string
	token := func(name string) string {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		cluster.Create(t, account)
		request := &authenticationv1.TokenRequest{}
		g.Expect(cluster.Client.SubResource("token").Create(t.Context(), account, request)).To(Succeed())
		namespace = account.Namespace
		return request.Status.Token
	}
	reader, other := token("reader"), token("other")
	g.Expect(cluster.Client.Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "kopf-status-reader"},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/kopf/*"}, Verbs: []string{"get"}}},
	})).To(Succeed())
	g.Expect(cluster.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kopf-status-reader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kopf-status-reader"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "reader"}},
	})).To(Succeed())

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // a self-signed certificate
	get := func(path, token string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+path, nil)
		g.Expect(err).NotTo(HaveOccurred())
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		g.Expect(err).NotTo(HaveOccurred())
		return response.StatusCode, string(body)
	}
	g.Eventually(func(g Gomega) {
		status, body := get("/kopf/objects", reader)
		g.Expect(status).To(Equal(http.StatusOK), body)
		g.Expect(body).To(ContainSubstring(`"name":"orders"`))
	}).Should(Succeed())
	for _, path := range []string{"/kopf/", "/kopf/objects", "/kopf/explain?kind=ConfigMap&name=orders&namespace=" + namespace, "/kopf/page.js"} {
		for want, token := range map[int]string{http.StatusUnauthorized: "", http.StatusForbidden: other, http.StatusOK: reader} {
			status, body := get(path, token)
			g.Expect(status).To(Equal(want), path)
			if want != http.StatusOK {
				g.Expect(body).NotTo(ContainSubstring("orders"))
			}
		}
	}
	status, _ := get("/metrics", reader)
	g.Expect(status).To(Equal(http.StatusForbidden))
}

// freeAddress returns an address that no process uses. Its port is outside the range of outgoing connections, so that they cannot use it.
func freeAddress(t *testing.T) string {
	t.Helper()
	for t.Context().Err() == nil {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(20000)))
		if err == nil {
			defer func() { _ = listener.Close() }()
			return listener.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}
