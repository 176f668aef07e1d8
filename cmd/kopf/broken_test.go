package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/statuspage"
	framework "github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	"github.com/kopf-runtime/kopf-runtime/test/chromium"
)

// brokenObjects are objects for which a handler is not called, each for another reason.
var brokenObjects = []struct {
	name, why string
	labels    map[string]string
	finalizer string
	frozen    bool // it is in the namespace that a peer pauses
}{
	{name: "filtered", labels: map[string]string{"tier": "silver"}, why: `metadata.labels["tier"] does not match: "silver", wanted Equal(gold)`},
	{name: "retried", labels: map[string]string{"backend": "busy"}, why: "the backend is busy"},
	{name: "blocked", labels: map[string]string{"backend": "busy"}, why: `it comes after "make"`},
	{name: "frozen", frozen: true, why: "the operator is paused: "},
	{name: "held", finalizer: "example.com/backup", why: "example.com/backup"},
}

// The page and the command find the cause for each of five broken objects: on the page with a search and one click, and with one command.
func TestBrokenObjects(t *testing.T) {
	browser := chromium.Start(t)
	all := kopftest.Environment(t, kopftest.CRDs(filepath.Join("..", "..", "config", "crd")))
	kubeconfig(t, all.Config)
	g, shop, other := NewWithT(t), all.ForTest(t), all.ForTest(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	for _, cluster := range []*kopftest.Cluster{shop, other} {
		peers := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfPeering"}}
		peers.SetName("default")
		cluster.Create(t, peers)
	}
	mustRun(t, "peers", "freeze", "-n", other.Namespace, "-t", "600", "--message", "moving the databases")

	both := *all
	both.Namespace = "" // all namespaces
	create := func(ctx context.Context, req request) error {
		if req.Object.Labels["backend"] == "busy" {
			return busy(ctx, req)
		}
		return nil
	}
	_, _, url := serve(t, &both,
		configMaps().
			OnCreate("make", create).
			OnCreate("announce", succeed, framework.After("make")).
			OnCreate("audit", succeed, framework.Label("tier", filter.Equal("gold"))),
		framework.WithPeering(peering.Options{Namespaces: []string{shop.Namespace, other.Namespace}}),
	)
	namespaces := map[string]string{}
	for _, broken := range brokenObjects {
		cluster := shop
		if broken.frozen {
			cluster = other
		}
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: broken.name, Labels: broken.labels}}
		if broken.finalizer != "" {
			obj.Finalizers = []string{broken.finalizer}
		}
		cluster.Create(t, obj)
		if broken.finalizer != "" {
			cluster.Delete(t, obj)
		}
		namespaces[broken.name] = cluster.Namespace
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // the test ends soon
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	endpoint := operatorEndpoint{url: url, insecure: true}
	go func() { ended <- endpoint.serve(ctx, listener) }()
	defer func() {
		stop()
		must(t, <-ended)
	}()
	address := "http://" + listener.Addr().String() + statuspage.Path

	for _, broken := range brokenObjects {
		t.Run(broken.name, func(t *testing.T) {
			g := NewWithT(t)
			g.SetDefaultEventuallyTimeout(time.Minute)
			g.Eventually(func() (string, error) {
				return kopf(t, "why", "configmaps", broken.name, "-n", namespaces[broken.name], "--operator", url, "--insecure-skip-tls-verify")
			}).Should(ContainSubstring(broken.why))

			page := browser.Open(t, address)
			page.Eval("document.getElementById('search').focus()", nil)
			page.Insert(broken.name + " " + namespaces[broken.name])
			page.Wait("document.querySelectorAll('#objects tbody tr').length === 1")
			page.Eval("document.querySelector('#objects tbody a').click()", nil)
			page.Wait("document.querySelector('#explanation table')")
			if text := page.Text("document.getElementById('object').innerText"); !strings.Contains(text, broken.why) {
				t.Errorf("the page does not contain %q:\n%s", broken.why, text)
			}
			page.Verify(address)
		})
	}

	page := browser.Open(t, address+fmt.Sprintf("#ConfigMap/%s/retried", shop.Namespace))
	g.Expect(page.Text("document.querySelector('svg.times desc').textContent")).To(MatchRegexp(`make began \d.* ago, attempt 1 retrying .* ago, next in`))
	g.Expect(page.Text("[...document.querySelectorAll('#explanation table')].at(-1).innerText")).To(MatchRegexp(`make\s+1\s+create[^$]*retrying\s+the backend is busy`))
}
