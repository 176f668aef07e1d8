package e2e

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// managerFor returns a manager for some namespaces. Without arguments, it returns a manager for the cluster.
func managerFor(logs *logRecorder, namespaces []string, setups ...setup) manager.Manager {
	GinkgoHelper()
	config := rest.CopyConfig(cp.Config)
	for _, s := range setups {
		s(config)
	}
	options := manager.Options{Scheme: scheme, Logger: logs.Logger(), Metrics: server.Options{BindAddress: "0"}}
	for _, ns := range namespaces {
		if options.Cache.DefaultNamespaces == nil {
			options.Cache.DefaultNamespaces = map[string]cache.Config{}
		}
		options.Cache.DefaultNamespaces[ns] = cache.Config{}
	}
	mgr, err := manager.New(config, options)
	Expect(err).NotTo(HaveOccurred())
	return mgr
}

var _ = Describe("Discovery", func() {
	type (
		W = *v1.Widget
		U = *unstructured.Unstructured
	)

	It("is limited to the declared kinds; failures of other aggregated API servers have no effect (OBS-01, SE-45)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		wire := &readRecorder{respond: func(req *http.Request) (*http.Response, error) {
			if strings.HasPrefix(req.URL.Path, "/apis/") && !strings.HasPrefix(req.URL.Path, "/apis/"+v1.GroupVersion.Group) {
				return errorResponse(req, apierrors.NewServiceUnavailable("injected: the server is down"), nil)
			}
			return nil, nil
		}}
		start(ns, options(kopf.For(&v1.Widget{}).OnCreate("created", ok[W](seen, "created"))), wire.setup())
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"created:create"}))
		Expect(wire.requests(func(u *url.URL) bool {
			return strings.HasPrefix(u.Path, "/apis/") && !strings.HasPrefix(u.Path, "/apis/"+v1.GroupVersion.Group)
		})).To(BeEmpty(), "OBS-01: the operator must not request other API groups")
	}, SpecTimeout(minute))

	It("makes the start fail with the reason if a declared kind cannot be discovered (OBS-02, RUN-05)", func(ctx context.Context) {
		wire := &readRecorder{respond: func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/apis/"+v1.GroupVersion.String() {
				return errorResponse(req, apierrors.NewServiceUnavailable("injected: the server is down"), nil)
			}
			return nil, nil
		}}
		mgr := newManager(newNamespace(ctx), &logRecorder{}, wire.setup())
		Expect(mgr.Add(kopf.New(mgr, kopf.For(&v1.Widget{}).OnCreate("created", ok[W](&calls{}, "created"))))).To(Succeed())
		Expect(failedStart(ctx, mgr)).To(MatchError(And(
			ContainSubstring("Widget: discovering the kind"), ContainSubstring("the server is down"))))
	}, SpecTimeout(minute))

	It("reports kinds that cannot be watched before it waits for caches (SEL-14)", func(ctx context.Context) {
		mgr := managerFor(&logRecorder{}, nil)
		Expect(mgr.Add(kopf.New(mgr,
			kopf.For(&corev1.ComponentStatus{}).OnEvent("seen", ok[*corev1.ComponentStatus](&calls{}, "seen")),
			kopf.For(&v1.Widget{}).OnEvent("seen", ok[W](&calls{}, "seen"))))).To(Succeed())
		Expect(failedStart(ctx, mgr)).To(MatchError(And(
			ContainSubstring("ComponentStatus: the API server serves v1, but without all required verbs"),
			Not(ContainSubstring("Widget")))))
	}, SpecTimeout(minute))

	It("happens once, even if a kind is deleted and created again (OBS-08)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		gvk := v1.GroupVersion.WithKind("Fleeting")
		install := func() error {
			_, err := envtest.InstallCRDs(cp.Config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd(gvk, false, true)}})
			return err
		}
		Expect(install()).To(Succeed())
		start(ns, options(kopf.For(kopf.Unstructured(gvk)).
			OnCreate("created", ok[U](seen, "created")).
			OnEvent("record", func(_ context.Context, req *kopf.Request[U]) error {
				if req.Event == watch.Deleted {
					seen.notef("gone")
				}
				return nil
			})))
		create(ctx, untyped(gvk, ns, "one"))
		Eventually(seen.all).Should(Equal([]string{"created:create"}))
		Expect(envtest.UninstallCRDs(cp.Config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd(gvk, false, true)}})).To(Succeed())
		Eventually(seen.all).Should(Equal([]string{"created:create", "gone"}))
		// The API server deletes the objects before the CRD. Until then, an installation would only change the old CRD.
		definition := untyped(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), "", crd(gvk, false, true).Name)
		Eventually(gone(ctx, definition)).WithTimeout(minute).Should(BeTrue())
		Eventually(install).Should(Succeed())
		Eventually(func() error { return k8s.Create(ctx, untyped(gvk, ns, "two")) }).Should(Succeed())
		Eventually(seen.all).WithTimeout(minute).Should(Equal([]string{"created:create", "gone", "created:create"}))
	}, SpecTimeout(2*minute))
})

var _ = Describe("The scope of an operator", func() {
	type (
		W = *v1.Widget
		N = *corev1.Namespace
	)

	watched := func(wire *readRecorder) []string {
		paths := wire.requests(isWatch)
		for i, path := range paths {
			paths[i], _, _ = strings.Cut(path, "?")
		}
		slices.Sort(paths)
		return slices.Compact(paths)
	}
	kinds := func(seen *calls) []kopf.Option {
		return options(
			kopf.For(&v1.Widget{}).OnEvent("record", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("%s/%s", req.Object.Namespace, req.Object.Name)
				return nil
			}),
			kopf.For(&corev1.Namespace{}).OnEvent("record", func(_ context.Context, req *kopf.Request[N]) error {
				seen.notef("%s", req.Object.Name)
				return nil
			}))
	}

	It("can be the cluster, with one watch for each kind (SCOPE-01, SCOPE-02)", func(ctx context.Context) {
		ns, seen, wire, logs := newNamespace(ctx), &calls{}, &readRecorder{}, &logRecorder{}
		mgr := managerFor(logs, nil, wire.setup())
		Expect(mgr.Add(kopf.New(mgr, kinds(seen)...))).To(Succeed())
		launch(mgr, logs)
		create(ctx, widget(ns, "one"))
		Eventually(seen.all).Should(ContainElements(ns+"/one", ns))
		Expect(watched(wire)).To(ConsistOf("/api/v1/namespaces", "/apis/"+v1.GroupVersion.String()+"/widgets"))
	}, SpecTimeout(minute))

	It("can be a set of namespaces, with a watch for each namespace and cluster-scoped kind, also for namespaces created later (SCOPE-01, SCOPE-03, SCOPE-08)", func(ctx context.Context) {
		ns, other, seen, wire, logs := newNamespace(ctx), newNamespace(ctx), &calls{}, &readRecorder{}, &logRecorder{}
		later := ns + "-later"
		mgr := managerFor(logs, []string{ns, later}, wire.setup())
		Expect(mgr.Add(kopf.New(mgr, kinds(seen)...))).To(Succeed())
		launch(mgr, logs)
		create(ctx, widget(ns, "one"))
		create(ctx, widget(other, "two"))
		Eventually(seen.all).Should(ContainElements(ns+"/one", ns, other))
		Expect(k8s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: later}})).To(Succeed())
		create(ctx, widget(later, "three"))
		Eventually(seen.all).Should(ContainElements(later+"/three", later))
		Expect(seen.all()).NotTo(ContainElement(other + "/two"))
		prefix := "/apis/" + v1.GroupVersion.String() + "/namespaces/"
		Expect(watched(wire)).To(ConsistOf("/api/v1/namespaces", prefix+ns+"/widgets", prefix+later+"/widgets"))
	}, SpecTimeout(minute))
})

var _ = Describe("Permissions of an operator", func() {
	type W = *v1.Widget

	It("make the start fail if the API server does not know the identity (AUTH-12, SE-15)", func(ctx context.Context) {
		mgr := newManager(newNamespace(ctx), &logRecorder{}, func(config *rest.Config) {
			*config = *rest.AnonymousClientConfig(config)
			config.BearerToken = "invalid-token"
		})
		Expect(mgr.Add(kopf.New(mgr, kopf.For(&v1.Widget{}).OnCreate("created", ok[W](&calls{}, "created"))))).To(Succeed())
		Expect(failedStart(ctx, mgr)).To(MatchError(ContainSubstring("Unauthorized")))
	}, SpecTimeout(minute))

	It("that the README lists are sufficient (MIG-18)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "operator"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1.GroupVersion.Group}, Resources: []string{"widgets"}, Verbs: []string{"get", "list", "watch", "patch"}},
			{APIGroups: []string{v1.GroupVersion.Group}, Resources: []string{"widgets/status"}, Verbs: []string{"patch"}},
			{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		}}
		grant(ctx, ns, role)
		op := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("created", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("created#%d", req.Attempt.Number)
				if req.Attempt.Number == 0 {
					return errors.New("not yet")
				}
				req.Object.Spec.Tags, req.Object.Status.Phase = []string{"made"}, "Made"
				req.Eventf("Normal", "Made", "Make", "the object exists")
				return nil
			}, kopf.Backoff(100*millisecond)).
			Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, _ *kopf.Request[W]) error { <-ctx.Done(); return nil }).
			OnDelete("deleted", ok[W](seen, "deleted"))),
			func(config *rest.Config) {
				config.Impersonate = rest.ImpersonationConfig{UserName: ns, Groups: []string{"system:authenticated"}}
			})
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(And(HaveField("Spec.Tags", Equal([]string{"made"})), HaveField("Status.Phase", "Made")))
		Eventually(eventsOf(ctx, obj)).Should(ContainElement("Normal Made Make: the object exists"))
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(Equal([]string{"created#0", "created#1", "deleted:delete"}))
		Expect(op.log.find("forbidden")).To(BeEmpty())
	}, SpecTimeout(minute))

	It("that are missing are logged, with the rule that grants them", func(ctx context.Context) {
		ns := newNamespace(ctx)
		grant(ctx, ns, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "operator"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1.GroupVersion.Group}, Resources: []string{"widgets"}, Verbs: []string{"get", "list", "watch"}},
		}})
		write := func(_ context.Context, req *kopf.Request[W]) error {
			req.Object.Spec.Color = "blue"
			return nil
		}
		op := start(ns, options(kopf.For(&v1.Widget{}).OnCreate("created", write)),
			func(config *rest.Config) {
				config.Impersonate = rest.ImpersonationConfig{UserName: ns, Groups: []string{"system:authenticated"}}
			})
		create(ctx, widget(ns, "one"))
		object := "+kubebuilder:rbac:groups=e2e.example.com,resources=widgets,verbs=patch"
		Eventually(func() []string { return op.log.find("Reconciler error", "cannot patch resource", object) }).ShouldNot(BeEmpty())
	}, SpecTimeout(minute))

	It("to write the status are logged if they are missing for daemons and timers", func(ctx context.Context) {
		ns := newNamespace(ctx)
		grant(ctx, ns, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "operator"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1.GroupVersion.Group}, Resources: []string{"widgets"}, Verbs: []string{"get", "list", "watch", "patch"}},
		}})
		op := start(ns, options(kopf.For(&v1.Widget{}).Timer("timed", daemons.Timer{Interval: time.Hour}, func(_ context.Context, req *kopf.Request[W]) error {
			req.Object.Status.Phase = "Made"
			return nil
		})), func(config *rest.Config) {
			config.Impersonate = rest.ImpersonationConfig{UserName: ns, Groups: []string{"system:authenticated"}}
		})
		create(ctx, widget(ns, "one"))
		Eventually(func() []string {
			return op.log.find("timed", "+kubebuilder:rbac:groups=e2e.example.com,resources=widgets/status,verbs=patch")
		}).ShouldNot(BeEmpty())
	}, SpecTimeout(minute))
})
