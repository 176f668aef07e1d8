package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kopf-runtime/kopf-runtime/pkg/events"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// checkWatches runs an operator that checks its watches at a short interval, and returns the checks.
func checkWatches(namespace string, opts []kopf.Option, setups ...setup) (ready, healthy func() error) {
	GinkgoHelper()
	logs := &logRecorder{}
	mgr := newManager(namespace, logs, setups...)
	operator := kopf.New(mgr, append(opts, kopf.WithWatchCheck(500*millisecond))...)
	Expect(mgr.Add(operator)).To(Succeed())
	working(launch(mgr, logs))
	return func() error { return operator.Readyz(nil) }, func() error { return operator.Healthz(nil) }
}

// silencedWatches is a transport. While it is active, it drops all events of watches but keeps the connections open.
type silencedWatches struct {
	next      http.RoundTripper
	all       bool // whether to drop events of new watches, too
	active    atomic.Bool
	delivered atomic.Int64 // number of bookmarks that were passed to probes
}

func (s *silencedWatches) setup() setup {
	return through(func(next http.RoundTripper) http.RoundTripper { s.next = next; return s })
}

func (s *silencedWatches) RoundTrip(r *http.Request) (*http.Response, error) {
	late := s.active.Load()
	response, err := s.next.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") != "" && (s.all || !late) {
		probe := r.URL.Query().Get("fieldSelector") != ""
		response.Body = &silencedBody{response.Body, s, probe}
	}
	return response, err
}

type silencedBody struct {
	io.ReadCloser
	silencedWatches *silencedWatches
	probe           bool
}

func (b *silencedBody) Read(p []byte) (int, error) {
	for {
		n, err := b.ReadCloser.Read(p)
		if !b.silencedWatches.active.Load() {
			if b.probe && n > 0 {
				b.silencedWatches.delivered.Add(1)
			}
			return n, err
		}
		if err != nil {
			return 0, err
		}
	}
}

var _ = Describe("A watch that delivers no changes", func() {
	type (
		W = *v1.Widget
		U = *unstructured.Unstructured
	)

	It("makes the operator unready only while permissions are missing", func(ctx context.Context) {
		ns, seen, wire := newNamespace(ctx), &calls{}, &watchBreaker{}
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "operator"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1.GroupVersion.Group}, Resources: []string{"widgets"}, Verbs: []string{"get", "list", "watch", "patch"}},
			{APIGroups: []string{v1.GroupVersion.Group}, Resources: []string{"widgets/status"}, Verbs: []string{"patch"}},
		}}
		create(ctx, role)
		binding := func() *rbacv1.RoleBinding {
			return &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "operator"},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "operator"},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: ns}},
			}
		}
		create(ctx, binding())
		awaitRights(ctx, ns, ns, role.Rules...)
		ready, healthy := checkWatches(ns, options(kopf.For(&v1.Widget{}).OnCreate("created", ok[W](seen, "created")), kopf.WithEvents(events.Options{Level: events.Off})),
			wire.setup(), func(config *rest.Config) {
				config.Impersonate = rest.ImpersonationConfig{UserName: ns, Groups: []string{"system:authenticated"}}
			})
		Eventually(ready).Should(Succeed())
		one, two := widget(ns, "one"), widget(ns, "two")
		create(ctx, one)
		handled(ctx, one)

		Expect(k8s.Delete(ctx, binding())).To(Succeed())
		wire.cut()
		wire.restore()
		Eventually(ready).Should(MatchError(And(
			ContainSubstring("Widget: the operator has not been allowed to watch objects in namespace %q", ns),
			ContainSubstring("grant the verbs list and watch"), ContainSubstring(`cannot watch resource "widgets"`),
			ContainSubstring("+kubebuilder:rbac:groups=e2e.example.com,resources=widgets,verbs=list;watch"))))
		Expect(healthy()).To(Succeed(), "a restart cannot help, so the operator must stay healthy")
		Eventually(watchProblems).WithArguments("widget", "forbidden").Should(BeEquivalentTo(1))
		create(ctx, two)

		create(ctx, binding())
		Eventually(ready).WithTimeout(minute).Should(Succeed())
		handled(ctx, two)
		Eventually(watchProblems).WithArguments("widget", "forbidden").Should(BeZero())
		Expect(seen.all()).To(Equal([]string{"created:create", "created:create"}))
	}, SpecTimeout(2*minute))

	It("makes the operator unready while the version of its kind is not served", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		old := v1.GroupVersion.WithKind("Retired")
		definition := crd(old, false, true)
		next := *definition.Spec.Versions[0].DeepCopy()
		next.Name = "v2"
		definition.Spec.Versions[0].Storage = false
		definition.Spec.Versions = append(definition.Spec.Versions, next)
		_, err := envtest.InstallCRDs(cp.Config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{definition}})
		Expect(err).NotTo(HaveOccurred())
		ready, healthy := checkWatches(ns, options(kopf.For(kopf.Unstructured(old)).OnCreate("created", ok[U](seen, "created"))))
		Eventually(ready).Should(Succeed())
		serveFirst(ctx, definition.Name, false)
		Eventually(ready).WithTimeout(minute).Should(MatchError(ContainSubstring("Retired: the API server has not served %s", old.GroupVersion())))
		Expect(healthy()).To(Succeed(), "a restart cannot help, so the operator must stay healthy")
		Eventually(watchProblems).WithArguments("retired", "not_served").Should(BeEquivalentTo(1))
		obj := untyped(old.GroupKind().WithVersion("v2"), ns, "one")
		Eventually(func() error { return k8s.Create(ctx, obj) }).Should(Succeed())
		serveFirst(ctx, definition.Name, true)
		Eventually(ready).WithTimeout(minute).Should(Succeed())
		Eventually(seen.all).WithTimeout(minute).Should(Equal([]string{"created:create"}))
	}, SpecTimeout(3*minute))

	for name, all := range map[string]bool{"its connection": false, "all streams": true} {
		It("makes the operator unready, and after a while unhealthy, if a proxy drops the events of "+name, func(ctx context.Context) {
			ns, seen, wire := newNamespace(ctx), &calls{}, &silencedWatches{all: all}
			ready, healthy := checkWatches(ns, options(kopf.For(&v1.Widget{}).OnCreate("created", ok[W](seen, "created")), kopf.WithStuckAfter(8*time.Second)), wire.setup())
			Eventually(wire.delivered.Load).WithTimeout(minute).Should(BeNumerically(">", 1), "the server must send bookmarks to probes")
			Expect(ready()).To(Succeed())
			wire.active.Store(true)
			create(ctx, widget(ns, "one"))
			Eventually(ready).WithTimeout(minute).Should(MatchError(ContainSubstring("Widget: the watch in namespace %q has delivered nothing for", ns)))
			Eventually(watchProblems).WithArguments("widget", "silent").Should(BeEquivalentTo(1))
			Eventually(healthy).WithTimeout(minute).Should(MatchError(ContainSubstring("has delivered nothing for")))
			Expect(seen.all()).To(BeEmpty())
		}, SpecTimeout(3*minute))
	}
})

// serveFirst enables or disables the first version of a kind.
func serveFirst(ctx context.Context, name string, served bool) {
	GinkgoHelper()
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	definition.SetName(name)
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/versions/0/served","value":%t}]`, served)
	Expect(k8s.Patch(ctx, definition, client.RawPatch(types.JSONPatchType, []byte(patch)))).To(Succeed())
}

func watchProblems(kind, reason string) float64 {
	GinkgoHelper()
	return metric("kopf_watch_problems", map[string]string{"kind": kind, "reason": reason})
}
