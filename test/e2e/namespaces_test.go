package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// pathRecorder records the paths of all requests of an operator.
type pathRecorder struct {
	mu    sync.Mutex
	paths []string
}

func (r *pathRecorder) setup() setup {
	return through(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			r.mu.Lock()
			r.paths = append(r.paths, req.Method+" "+req.URL.Path)
			r.mu.Unlock()
			return next.RoundTrip(req)
		})
	})
}

// clusterWide returns the requests for resources that are not in a namespace. All users may send those for discovery and for their own permissions.
func (r *pathRecorder) clusterWide() (found []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, path := range r.paths {
		_, path, _ := strings.Cut(path, " ")
		parts := strings.Split(strings.Trim(path, "/"), "/")
		isResource := parts[0] == "api" && len(parts) > 2 || parts[0] == "apis" && len(parts) > 3
		if isResource && !strings.Contains(path, "/namespaces/") && parts[1] != "authorization.k8s.io" {
			found = append(found, path)
		}
	}
	return found
}

// allow grants a user the permissions that an operator of Widgets needs in a namespace.
func allow(ctx context.Context, user, namespace string) {
	GinkgoHelper()
	grant(ctx, user, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "operator"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1.GroupVersion.Group}, Resources: []string{"widgets", "widgets/status"}, Verbs: []string{"get", "list", "watch", "patch"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}})
}

func as(user string) setup {
	return func(config *rest.Config) {
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	}
}

// inNamespaces returns handlers that note their reason with the name of the object.
func inNamespaces(c *calls, opts ...kopf.ResourceOption) *kopf.Resource[*v1.Widget] {
	note := func(_ context.Context, req *kopf.Request[*v1.Widget]) error {
		c.notef("%s %s", req.Reason, req.Object.Name)
		return nil
	}
	return kopf.For(&v1.Widget{}, opts...).OnCreate("create", note).OnUpdate("update", note).OnDelete("delete", note).OnResume("resume", note)
}

// launchOperator starts an operator whose manager has no namespaces, and returns it.
func launchOperator(logs *logRecorder, opts []kopf.Option, setups ...setup) *kopf.Operator {
	GinkgoHelper()
	mgr := managerFor(logs, nil, setups...)
	op := kopf.New(mgr, opts...)
	Expect(mgr.Add(op)).To(Succeed())
	launch(mgr, logs)
	return op
}

func label(ctx context.Context, namespace, key, value string) {
	GinkgoHelper()
	edit(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, func(ns *corev1.Namespace) {
		if value == "" {
			delete(ns.Labels, key)
			return
		}
		if ns.Labels == nil {
			ns.Labels = map[string]string{}
		}
		ns.Labels[key] = value
	})
}

var _ = Describe("Namespaces at run time", func() {
	It("need only Roles, and change with SetNamespaces (SCOPE-03, SCOPE-04, SCOPE-10)", func(ctx context.Context) {
		one, two, three, user := newNamespace(ctx), newNamespace(ctx), newNamespace(ctx), "roles-only"
		for _, namespace := range []string{one, two, three} {
			allow(ctx, user, namespace)
			create(ctx, widget(namespace, "in-"+namespace))
		}
		c, paths, logs := &calls{}, &pathRecorder{}, &logRecorder{}
		op := launchOperator(logs, options(kopf.WithNamespaces(one, two), inNamespaces(c)), as(user), paths.setup())
		Eventually(c.all).Should(ConsistOf("create in-"+one, "create in-"+two))
		Eventually(func() error { return op.Readyz(nil) }).Should(Succeed())
		handled(ctx, widget(one, "in-"+one))
		handled(ctx, widget(two, "in-"+two))
		c.clear()

		Expect(op.SetNamespaces(one, three)).To(Succeed())
		Eventually(c.all).Should(ConsistOf("create in-" + three))
		Eventually(func() []string { return logs.find("no longer handled", two) }).Should(HaveLen(1))
		c.clear()
		edit(ctx, widget(two, "in-"+two), func(w *v1.Widget) { w.Spec.Size = 5 })
		edit(ctx, widget(one, "in-"+one), func(w *v1.Widget) { w.Spec.Size = 5 })
		Eventually(c.all).Should(ConsistOf("update in-" + one))
		handled(ctx, widget(one, "in-"+one))
		Consistently(c.all).WithTimeout(500*millisecond).Should(ConsistOf("update in-"+one), "objects of other namespaces are not handled")
		c.clear()

		Expect(op.SetNamespaces("Invalid")).To(MatchError(ContainSubstring("can never match")))
		Expect(op.SetNamespaces(two)).To(Succeed())
		Eventually(c.all).Should(ContainElement("update in-"+two), "the change in the meantime is handled")
		handled(ctx, widget(two, "in-"+two))
		remove(ctx, widget(two, "in-"+two))
		Eventually(gone(ctx, widget(two, "in-"+two))).Should(BeTrue())
		Expect(c.count("delete in-" + two)).To(Equal(1))
		Expect(paths.clusterWide()).To(BeEmpty())
		for _, namespace := range []string{one, three} {
			edit(ctx, widget(namespace, "in-"+namespace), func(w *v1.Widget) { w.Finalizers = nil })
		}
	}, SpecTimeout(2*minute))

	It("are found by patterns, while they exist (SCOPE-05, SCOPE-08, SCOPE-09, SCOPE-06)", func(ctx context.Context) {
		base := newNamespace(ctx)
		c, logs := &calls{}, &logRecorder{}
		first, excluded := base+"-one", base+"-no"
		for _, name := range []string{first, excluded} {
			create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
			create(ctx, widget(name, "in-"+name))
		}
		op := launchOperator(logs, options(kopf.WithNamespaces(base+"-*, !*-no"), inNamespaces(c)))
		Eventually(c.all).Should(ConsistOf("create in-" + first))
		later := base + "-later"
		create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: later}})
		create(ctx, widget(later, "in-"+later))
		Eventually(c.all).Should(ConsistOf("create in-"+first, "create in-"+later))
		Eventually(func() error { return op.Readyz(nil) }).Should(Succeed())
		for _, name := range []string{first, later} {
			handled(ctx, widget(name, "in-"+name))
			remove(ctx, widget(name, "in-"+name))
			Eventually(gone(ctx, widget(name, "in-"+name))).Should(BeTrue())
		}
		Expect(op.SetNamespaces("other-*")).To(Succeed())
		Eventually(func() []string { return logs.find("no longer handled") }).Should(HaveLen(2))
	}, SpecTimeout(2*minute))

	It("are left after running handlers have finished; daemons are stopped, and start again (SCOPE-08)", func(ctx context.Context) {
		ns, other := newNamespace(ctx), newNamespace(ctx)
		c, logs, finish := &calls{}, &logRecorder{}, make(chan struct{})
		var daemonCause atomic.Value
		resource := kopf.For(&v1.Widget{}).
			OnCreate("slow", func(_ context.Context, _ *kopf.Request[*v1.Widget]) error {
				c.notef("slow begins")
				<-finish
				c.notef("slow ends")
				return nil
			}).
			OnCreate("next", ok[*v1.Widget](c, "next"), kopf.After("slow")).
			Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, _ *kopf.Request[*v1.Widget]) error {
				c.notef("daemon begins")
				<-ctx.Done()
				daemonCause.Store(context.Cause(ctx))
				c.notef("daemon ends")
				return nil
			})
		op := launchOperator(logs, options(kopf.WithNamespaces(ns), resource))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(c.all).Should(ConsistOf("slow begins", "daemon begins"))
		Expect(op.SetNamespaces(other)).To(Succeed())
		Eventually(func() []string { return logs.find("Handling the namespace", other) }).Should(HaveLen(1), "other namespaces do not wait")
		close(finish)
		Eventually(func() []string { return logs.find("no longer handled", ns) }).Should(HaveLen(1))
		Expect(c.all()).To(ConsistOf("slow begins", "daemon begins", "slow ends", "daemon ends"))
		Expect(errors.Is(daemonCause.Load().(error), daemons.ErrOutOfScope)).To(BeTrue())
		stored, err := fresh(ctx, obj)()
		Expect(err).NotTo(HaveOccurred())
		Expect(records(stored)).To(ContainElement(ContainSubstring("slow")), "the outcome is stored")
		Expect(stored.Finalizers).NotTo(BeEmpty())
		c.clear()
		Expect(op.SetNamespaces(ns)).To(Succeed())
		Eventually(c.all).Should(ConsistOf("daemon begins", "next:create"), "the work continues where it has ended")
		handled(ctx, obj)
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
	}, SpecTimeout(2*minute))

	It("without permissions do not block others (SCOPE-10, SCOPE-11)", func(ctx context.Context) {
		ns, forbidden, user := newNamespace(ctx), newNamespace(ctx), "roles-in-one"
		allow(ctx, user, ns)
		c, logs := &calls{}, &logRecorder{}
		op := launchOperator(logs, options(kopf.WithNamespaces(ns, forbidden, "team-*"), kopf.WithWatchCheck(500*millisecond), inNamespaces(c)), as(user))
		create(ctx, widget(ns, "one"))
		create(ctx, widget(forbidden, "two"))
		Eventually(c.all).Should(ConsistOf("create one"))
		Eventually(func() []string { return logs.find("Listing or watching Namespaces is forbidden") }).Should(HaveLen(1))
		Eventually(func() []string { return logs.find("Listing some kinds in a namespace is forbidden", forbidden) }).Should(HaveLen(1))
		Eventually(func() error { return op.Readyz(nil) }).WithTimeout(minute).Should(MatchError(And(ContainSubstring(forbidden), Not(ContainSubstring(fmt.Sprintf("%q", ns))))))
		c.clear()
		allow(ctx, user, forbidden)
		Eventually(c.all).WithTimeout(minute).Should(ConsistOf("create two"))
		Eventually(func() error { return op.Readyz(nil) }).WithTimeout(minute).Should(Succeed())
		for _, obj := range []*v1.Widget{widget(ns, "one"), widget(forbidden, "two")} {
			handled(ctx, obj)
			remove(ctx, obj)
			Eventually(gone(ctx, obj)).Should(BeTrue())
		}
	}, SpecTimeout(2*minute))

	It("gain and lose a label under edits; each change is handled once, and no goroutine stays (SCOPE-08)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		c, sizes, logs := &calls{}, &calls{}, &logRecorder{}
		mgr := managerFor(logs, nil)
		resource := inNamespaces(c).
			OnUpdate("size", func(_ context.Context, req *kopf.Request[*v1.Widget]) error {
				sizes.notef("%v -> %v", req.Diff[0].Old, req.Diff[0].New)
				return nil
			}, kopf.Field("spec.size")).
			Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, _ *kopf.Request[*v1.Widget]) error {
				<-ctx.Done()
				return nil
			})
		op := kopf.New(mgr, kopf.WithNamespaceFunc(func(one *corev1.Namespace) bool { return one.Name == ns && one.Labels["team"] == "a" }), resource)
		Expect(mgr.Add(op)).To(Succeed())
		running := launch(mgr, logs)
		obj := widget(ns, "one")
		obj.Spec.Size = 1
		create(ctx, obj)
		logs.setOnly("no longer handled") // the log would count as memory of the operator
		var goroutines, heap int
		for round := range *rounds {
			label(ctx, ns, "team", "a")
			if round == 0 {
				Eventually(c.all).Should(ConsistOf("create one"))
			}
			edit(ctx, obj, func(w *v1.Widget) { w.Spec.Size = 2*round + 2 })
			Eventually(sizes.all).Should(ContainElement(HaveSuffix(fmt.Sprintf("-> %d", 2*round+2))))
			edit(ctx, obj, func(w *v1.Widget) { w.Spec.Size = 2*round + 3 })
			label(ctx, ns, "team", "")
			Eventually(func() []string { return logs.find("no longer handled", ns) }).Should(HaveLen(round + 1))
			switch {
			case round == 9:
				goroutines, heap = footprint(ctx, running)
			case round > 9 && round == *rounds-1:
				g, h := footprint(ctx, running)
				AddReportEntry("goroutines and heap", fmt.Sprintf("after 10 rounds: %d, %d KiB; after %d: %d, %d KiB", goroutines, heap>>10, *rounds, g, h>>10))
				Expect(g).To(BeNumerically("<=", goroutines+goroutines/20+1))
				Expect(h).To(BeNumerically("<=", heap+heap/20))
			}
		}
		label(ctx, ns, "team", "a")
		Eventually(sizes.all).Should(ContainElement(HaveSuffix(fmt.Sprintf("-> %d", 2**rounds+1))))
		handled(ctx, obj)
		Expect(c.count("create one")).To(Equal(1))
		handledSize := "1" // each change begins where the one before has ended: none is lost, and none is repeated
		for _, change := range sizes.all() {
			before, after, _ := strings.Cut(change, " -> ")
			Expect(before).To(Equal(handledSize), "%v", sizes.all())
			handledSize = after
		}
		Eventually(func() error { return op.Readyz(nil) }).Should(Succeed())
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(c.count("delete one")).To(Equal(1))
	}, SpecTimeout(time.Duration(max(3, *rounds))*minute))

	It("are handled when their indexes are complete (IDX-16, RUN-04)", func(ctx context.Context) {
		ns, c := newNamespace(ctx), &calls{}
		for i := range 20 {
			create(ctx, widget(ns, fmt.Sprint("w", i)))
		}
		create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "counted"}})
		widgets := kopf.For(&v1.Widget{})
		index := kopf.IndexBy(widgets, "by-namespace", func(_ context.Context, req *kopf.Request[*v1.Widget]) (map[string]string, error) {
			return map[string]string{req.Object.Namespace: req.Object.Name}, nil
		})
		op := launchOperator(&logRecorder{}, options(kopf.WithNamespaces(newNamespace(ctx)), widgets,
			kopf.For(&corev1.ConfigMap{}).OnEvent("count", func(_ context.Context, req *kopf.Request[*corev1.ConfigMap]) error {
				if req.Object.Name == "counted" {
					c.notef("%d", len(index.Get(req.Object.Namespace)))
				}
				return nil
			})))
		Eventually(func() error { return op.Readyz(nil) }).Should(Succeed())
		Expect(op.SetNamespaces(ns)).To(Succeed())
		Eventually(c.all).Should(Equal([]string{"20"}))
		Expect(op.SetNamespaces(newNamespace(ctx))).To(Succeed())
		Eventually(func() int { return len(index.Get(ns)) }).Should(BeZero())
	}, SpecTimeout(minute))
})
