package e2e

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	runtimego "runtime"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// rounds is the number of times that a spec installs and deletes a CustomResourceDefinition. With 20 and more, the spec also compares the memory.
var rounds = flag.Int("rounds", 3, "number of times that CustomResourceDefinitions come and go")

// manyKinds is the number of kinds that a spec selects with one pattern. With 500, the spec takes some minutes and reports the memory.
var manyKinds = flag.Int("kinds", 8, "number of kinds that are selected with one pattern")

// comets are kinds whose CustomResourceDefinitions a spec installs and deletes.
type comets struct {
	group string
	mu    sync.Mutex
	calls []string

	installed map[string]bool // the kinds that are removed at the end of the spec
}

func newComets(name string) *comets {
	return &comets{group: name + ".comets.example.com", installed: map[string]bool{}}
}

func (c *comets) kind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: c.group, Version: "v1", Kind: kind}
}

// install creates the CustomResourceDefinition of a kind, and returns a function that deletes it and waits until it is gone.
func (c *comets) install(ctx context.Context, kind string, names ...string) (remove func(context.Context)) {
	GinkgoHelper()
	definition := crd(c.kind(kind), true, true)
	definition.Spec.Names.ShortNames = names
	definition.Spec.Names.Categories = []string{"stars"}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(definition)
	Expect(err).NotTo(HaveOccurred())
	installed := &unstructured.Unstructured{Object: content} // the scheme of the specs does not have the type
	installed.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	create(ctx, installed)
	Eventually(func() error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(c.kind(kind + "List"))
		return k8s.List(ctx, list)
	}).Should(Succeed())
	name := installed.GetName() // the function must not hold the definition: it would count as memory of the operator
	remove = func(ctx context.Context) {
		GinkgoHelper()
		installed := untyped(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), "", name)
		Expect(client.IgnoreNotFound(k8s.Delete(ctx, installed))).To(Succeed())
		Eventually(func() bool {
			return apierrors.IsNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(installed), installed))
		}).WithTimeout(minute).Should(BeTrue(), "the CustomResourceDefinition must not be held by finalizers")
	}
	if !c.installed[kind] {
		c.installed[kind] = true
		DeferCleanup(remove)
	}
	return remove
}

func (c *comets) object(kind, namespace, name string) *unstructured.Unstructured {
	return untyped(c.kind(kind), namespace, name)
}

func (c *comets) handler(id string) kopf.Handler[*unstructured.Unstructured] {
	return func(_ context.Context, req *kopf.Request[*unstructured.Unstructured]) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.calls = append(c.calls, fmt.Sprintf("%s %s %s", id, req.Object.GetKind(), req.Object.GetName()))
		return nil
	}
}

// declare adds a creation handler, a deletion handler and a daemon.
func (c *comets) declare(r *kopf.Resource[*unstructured.Unstructured]) *kopf.Resource[*unstructured.Unstructured] {
	return r.OnCreate("create", c.handler("create")).OnDelete("delete", c.handler("delete")).
		Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, _ *kopf.Request[*unstructured.Unstructured]) error {
			<-ctx.Done()
			return nil
		})
}

// take returns the calls since the last take, sorted.
func (c *comets) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = nil
	slices.Sort(calls)
	return calls
}

func (c *comets) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.calls))
}

// asUser runs an operator as a user who may handle only some resources of a group in a namespace.
func asUser(ctx context.Context, namespace, group string, resources ...string) setup {
	GinkgoHelper()
	grant(ctx, namespace, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "operator"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get", "list", "watch", "patch"}},
	}})
	return func(config *rest.Config) {
		config.Impersonate = rest.ImpersonationConfig{UserName: namespace, Groups: []string{"system:authenticated"}}
	}
}

// footprint returns the number of goroutines and the size of the heap when the operator has stopped the controllers of all kinds at run time.
func footprint(ctx context.Context, op *running) (goroutines, heap int) {
	GinkgoHelper()
	op.GetHTTPClient().CloseIdleConnections()
	stable := 0
	Eventually(func() bool {
		n := runtimego.NumGoroutine()
		isStable := n == goroutines
		goroutines = n
		if isStable {
			stable++
		} else {
			stable = 0
		}
		return stable >= 5
	}).WithContext(ctx).WithPolling(500 * millisecond).WithTimeout(minute).Should(BeTrue())
	runtimego.GC()
	runtimego.GC()
	var stats runtimego.MemStats
	runtimego.ReadMemStats(&stats)
	return goroutines, int(stats.HeapAlloc)
}

var _ = Describe("Kinds at run time", func() {
	forKind := func(c *comets) func(metav1.APIResource) kopf.Option {
		return func(kind metav1.APIResource) kopf.Option {
			return c.declare(kopf.For(kopf.Unstructured(schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind})))
		}
	}
	inNamespace := func(namespace string) kopf.Option {
		return kopf.WithKindCaches(cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	}

	It("are handled while they are served; their finalizers do not hold the CRD (SEL-13, OBS-06, OBS-07, OBS-08)", func(ctx context.Context) {
		c, ns, fixed := newComets("rounds"), newNamespace(ctx), &calls{}
		op := start(ns, options(inNamespace(ns),
			kopf.For(&corev1.ConfigMap{}).OnCreate("fixed", ok[*corev1.ConfigMap](fixed, "fixed"), kopf.Label("fixed")),
			c.declare(kopf.For(kopf.Unstructured(c.kind("Comet")), kopf.WhenServed()))))
		create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "fixed", Labels: map[string]string{"fixed": ""}}})
		Eventually(fixed.all).Should(Equal([]string{"fixed:create"}), "other kinds do not wait")
		Eventually(func() []string { return op.log.find("Waiting until the API server serves the kind", "Comet") }).Should(HaveLen(1))
		op.log.setOnly("no longer serves") // the log would count as memory of the operator
		var goroutines, heap int
		for round := range *rounds {
			uninstall := c.install(ctx, "Comet")
			var want []string
			for i := range 3 {
				obj := c.object("Comet", ns, fmt.Sprintf("c%d-%d", round, i))
				create(ctx, obj)
				want = append(want, "create Comet "+obj.GetName())
			}
			Eventually(c.all).WithTimeout(minute).Should(Equal(want))
			for _, name := range want {
				handled(ctx, c.object("Comet", ns, strings.TrimPrefix(name, "create Comet ")))
			}
			uninstall(ctx)
			for _, name := range slices.Clone(want) {
				want = append(want, strings.Replace(name, "create", "delete", 1))
			}
			Expect(c.take()).To(Equal(want), "each handler is called once")
			Eventually(func() []string { return op.log.find("no longer serves the kind") }).WithTimeout(minute).Should(HaveLen(round + 1))
			switch {
			case round == 9:
				goroutines, heap = footprint(ctx, op)
			case round > 9 && round == *rounds-1:
				g, h := footprint(ctx, op)
				AddReportEntry("goroutines and heap", fmt.Sprintf("after 10 rounds: %d, %d KiB; after %d: %d, %d KiB", goroutines, heap>>10, *rounds, g, h>>10))
				Expect(g).To(BeNumerically("<=", goroutines+goroutines/20+1))
				Expect(h).To(BeNumerically("<=", heap+heap/20))
			}
		}
	}, SpecTimeout(time.Duration(max(3, *rounds))*minute))

	It("are selected by patterns, also those that are installed later (SEL-01, SEL-02, SEL-05)", func(ctx context.Context) {
		c, ns := newComets("patterns"), newNamespace(ctx)
		removeMoon := c.install(ctx, "Moon")
		start(ns, options(inNamespace(ns), kopf.ForKinds(kopf.Kinds("*."+c.group), forKind(c))))
		create(ctx, c.object("Moon", ns, "one"))
		Eventually(c.take).WithTimeout(minute).Should(Equal([]string{"create Moon one"}))
		removeSun := c.install(ctx, "Sun")
		create(ctx, c.object("Sun", ns, "two"))
		Eventually(c.take).WithTimeout(minute).Should(Equal([]string{"create Sun two"}))
		removeMoon(ctx)
		removeSun(ctx)
		Expect(c.take()).To(Equal([]string{"delete Moon one", "delete Sun two"}))
	}, SpecTimeout(2*minute))

	It("are handled at once beside a kind without permissions and a group that does not answer (SEL-14)", func(ctx context.Context) {
		c, ns := newComets("many"), newNamespace(ctx)
		broken := untyped(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}, "", "v1.broken.example.com")
		broken.Object["spec"] = map[string]any{
			"group": "broken.example.com", "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"service": map[string]any{"namespace": ns, "name": "missing"},
		}
		create(ctx, broken)
		DeferCleanup(func(ctx context.Context) { _ = k8s.Delete(ctx, broken) })
		var resources []string
		for i := range *manyKinds {
			kind := fmt.Sprintf("Comet%d", i)
			c.install(ctx, kind)
			if i > 0 {
				plural := strings.ToLower(kind) + "s"
				resources = append(resources, plural, plural+"/status")
			}
		}
		logs := &logRecorder{}
		mgr := managerFor(logs, nil, asUser(ctx, ns, c.group, resources...))
		noteMetadata := func(_ context.Context, req *kopf.Request[*metav1.PartialObjectMetadata]) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.calls = append(c.calls, req.Object.Kind)
			return nil
		}
		op := kopf.New(mgr, kopf.WithNamespaces(ns), kopf.ForKinds(kopf.Kinds("*."+c.group), func(kind metav1.APIResource) kopf.Option {
			return kopf.For(kopf.Metadata(schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind})).OnCreate("note", noteMetadata)
		}))
		Expect(mgr.Add(op)).To(Succeed())
		for i := range *manyKinds {
			create(ctx, c.object(fmt.Sprintf("Comet%d", i), ns, "one"))
		}
		runtimego.GC()
		var before, after runtimego.MemStats
		runtimego.ReadMemStats(&before)
		started := time.Now()
		launch(mgr, logs)
		Eventually(func() int { return len(c.all()) }).WithTimeout(5 * minute).Should(Equal(*manyKinds - 1))
		Expect(c.all()).NotTo(ContainElement("Comet0"))
		took := time.Since(started)
		runtimego.GC()
		runtimego.ReadMemStats(&after)
		AddReportEntry("kinds", fmt.Sprintf("%d kinds handled after %s; heap %d -> %d KiB; %d goroutines",
			*manyKinds-1, took.Round(time.Millisecond), before.HeapAlloc>>10, after.HeapAlloc>>10, runtimego.NumGoroutine()))
		Eventually(func() error { return op.Readyz(nil) }).WithTimeout(minute).Should(MatchError(ContainSubstring("Comet0")))
		for i := range *manyKinds { // the API server needs seconds for each
			definition := crd(c.kind(fmt.Sprintf("Comet%d", i)), true, true)
			_ = k8s.Delete(ctx, untyped(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), "", definition.Name))
		}
	}, SpecTimeout(time.Duration(max(2, *manyKinds/20))*minute))

	It("without permissions do not block others, are named by the readiness, and handled when they are granted (OBS-09)", func(ctx context.Context) {
		c, ns := newComets("rights"), newNamespace(ctx)
		removeAllowed, removeForbidden := c.install(ctx, "Allowed"), c.install(ctx, "Forbidden")
		logs := &logRecorder{}
		mgr := newManager(ns, logs, asUser(ctx, ns, c.group, "alloweds", "alloweds/status"))
		op := kopf.New(mgr, inNamespace(ns), kopf.WithWatchCheck(500*millisecond), kopf.ForKinds(kopf.Kinds("*."+c.group), forKind(c)))
		Expect(mgr.Add(op)).To(Succeed())
		launch(mgr, logs)
		create(ctx, c.object("Allowed", ns, "one"))
		create(ctx, c.object("Forbidden", ns, "two"))
		Eventually(c.all).WithTimeout(minute).Should(Equal([]string{"create Allowed one"}))
		Eventually(func() error { return op.Readyz(&http.Request{}) }).WithTimeout(minute).Should(MatchError(ContainSubstring("forbidden")))
		c.take()
		edit(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "operator"}}, func(role *rbacv1.Role) {
			role.Rules[0].Resources = append(role.Rules[0].Resources, "forbiddens", "forbiddens/status")
		})
		Eventually(c.take).WithTimeout(minute).Should(Equal([]string{"create Forbidden two"}))
		Eventually(func() error { return op.Readyz(&http.Request{}) }).Should(Succeed())
		removeAllowed(ctx)
		removeForbidden(ctx)
	}, SpecTimeout(2*minute))
})

// Each selector is resolved with the discovery of the API server.
var _ = Describe("Selectors of kinds", func() {
	DescribeTable("select kinds", func(ctx context.Context, selector func(one, other *comets) kopf.KindSelector, check func(one, other *comets, selected func() []string)) {
		name := newNamespace(ctx)
		one, other := newComets("a-"+name), newComets("b-"+name)
		for _, kind := range []string{"Halo", "Service"} {
			one.install(ctx, kind, strings.ToLower(kind[:2])+name)
		}
		one.install(ctx, "Twin"+strings.ReplaceAll(name, "-", ""))
		other.install(ctx, "Twin"+strings.ReplaceAll(name, "-", ""))
		c := &calls{}
		launchOperator(&logRecorder{}, options(kopf.ForKinds(selector(one, other), func(kind metav1.APIResource) kopf.Option {
			gvk := schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}
			c.notef("%s", gvk)
			return kopf.For(kopf.Metadata(gvk)).OnEvent("see", func(context.Context, *kopf.Request[*metav1.PartialObjectMetadata]) error { return nil })
		})))
		check(one, other, c.all)
	},
		Entry("by a function (SEL-06)", SpecTimeout(minute), func(one, _ *comets) kopf.KindSelector {
			return kopf.KindsFunc(func(kind metav1.APIResource) bool { return kind.Group == one.group && kind.Kind == "Halo" })
		}, func(one, _ *comets, selected func() []string) {
			Eventually(selected).Should(Equal([]string{one.kind("Halo").String()}))
		}),
		Entry("all, without Events, in preferred versions (SEL-07, SEL-08, SEL-09)", SpecTimeout(minute), func(_, _ *comets) kopf.KindSelector {
			return kopf.Kinds("*")
		}, func(one, _ *comets, selected func() []string) {
			Eventually(selected).Should(ContainElements(one.kind("Halo").String(), "/v1, Kind=ConfigMap", "apps/v1, Kind=Deployment", "autoscaling/v2, Kind=HorizontalPodAutoscaler"))
			Expect(selected()).NotTo(ContainElement(HaveSuffix("Kind=Event")))
			Expect(selected()).NotTo(ContainElement(HavePrefix("autoscaling/v1,")))
		}),
		Entry("of the core group first, by a specific name (SEL-10, SEL-11)", SpecTimeout(minute), func(_, _ *comets) kopf.KindSelector {
			return kopf.Kinds("services")
		}, func(_, _ *comets, selected func() []string) {
			Eventually(selected).Should(Equal([]string{"/v1, Kind=Service"}))
		}),
		Entry("but no ambiguous ones (SEL-12)", SpecTimeout(minute), func(one, _ *comets) kopf.KindSelector {
			twins := "twin" + strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(one.group, "a-"), ".comets.example.com"), "-", "") + "s"
			return kopf.Kinds(twins, "services")
		}, func(_, _ *comets, selected func() []string) {
			Eventually(selected).Should(Equal([]string{"/v1, Kind=Service"}))
			Consistently(selected).WithTimeout(300 * millisecond).Should(HaveLen(1))
		}),
	)
})
