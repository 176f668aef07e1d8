package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// revocation is the time for which a spec revokes permissions in the middle of a storm.
var revocation = flag.Duration("revocation", 5*time.Second, "time without permissions in the middle of a storm")

// rolesOf returns the roles that WriteRights writes.
func rolesOf(namespace string, opts ...kopf.Option) (roles []*rbacv1.Role) {
	GinkgoHelper()
	var out bytes.Buffer
	Expect(kopf.WriteRights(&out, scheme, rights.Options{Name: "operator", Namespaces: []string{namespace}}, opts...)).To(Succeed())
	decoder := yaml.NewYAMLOrJSONDecoder(&out, 4096)
	for {
		role := &rbacv1.Role{}
		if decoder.Decode(role) != nil {
			return roles
		}
		roles = append(roles, role)
	}
}

// grant gives a user permissions in a namespace.
func grant(ctx context.Context, user string, role *rbacv1.Role) {
	GinkgoHelper()
	create(ctx, role)
	create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: role.Namespace, Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	})
	awaitRights(ctx, user, role.Namespace, role.Rules...)
}

// awaitRights waits until the authorizer of the API server, which learns of new roles and bindings a moment later, knows the permissions of a user.
func awaitRights(ctx context.Context, user, namespace string, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, path := range rule.Resources {
				for _, verb := range rule.Verbs {
					resource, subresource, _ := strings.Cut(path, "/")
					attributes := &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource}
					if len(rule.ResourceNames) > 0 {
						attributes.Name = rule.ResourceNames[0]
					}
					Eventually(func() (bool, error) {
						review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
							User: user, Groups: []string{"system:authenticated"}, ResourceAttributes: attributes,
						}}
						err := k8s.Create(ctx, review)
						return review.Status.Allowed, err
					}).Should(BeTrue(), "%s may %s %s in %q", user, verb, path, namespace)
				}
			}
		}
	}
}

// missingPermissions returns the values of the metric that are not zero.
func missingPermissions() (found []string) {
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() != "kopf_missing_permissions" {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			found = append(found, strings.Join(labels, " "))
		}
	}
	return found
}

var _ = Describe("Generated permissions", Serial, func() {
	type W = *v1.Widget

	// everything returns an operator that needs permissions of all kinds.
	everything := func(c *calls) []kopf.Option {
		return options(
			kopf.For(&v1.Widget{}).OnCreate("create", func(ctx context.Context, req *kopf.Request[W]) error {
				c.notef("create %s", req.Object.Name)
				req.Object.Status.Phase = "Made"
				req.Eventf("Normal", "Made", "Make", "the object exists")
				return req.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: req.Object.Namespace, Name: req.Object.Name}})
			}).
				OnReconcile("reconcile", func(context.Context, *kopf.Request[W]) error { return nil }).
				Owns(&corev1.ConfigMap{}).
				Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, _ *kopf.Request[W]) error { <-ctx.Done(); return nil }).
				OnDelete("delete", ok[W](c, "delete")),
			kopf.Needs(&corev1.Secret{}, "create"), kopf.WithWatchCheck(200*millisecond))
	}

	It("are sufficient", func(ctx context.Context) {
		ns, c := newNamespace(ctx), &calls{}
		roles := rolesOf(ns, everything(c)...)
		Expect(roles).To(HaveLen(1))
		grant(ctx, ns, roles[0])
		op := start(ns, everything(c), as(ns))
		one := widget(ns, "one")
		create(ctx, one)
		handled(ctx, one)
		Eventually(eventsOf(ctx, one)).Should(ContainElement("Normal Made Make: the object exists"))
		remove(ctx, one)
		Eventually(gone(ctx, one)).Should(BeTrue())
		Expect(c.all()).To(Equal([]string{"create one", "delete:delete"}))
		Expect(op.log.find("permission")).To(BeEmpty())
		Expect(op.log.find("forbidden")).To(BeEmpty())
	}, SpecTimeout(minute))

	It("are named one by one if they are missing at the start", func(ctx context.Context) {
		ns, count := newNamespace(ctx), 0
		complete := rolesOf(ns, everything(&calls{})...)[0]
		role := complete.DeepCopy()
		grant(ctx, ns, role)
		for i, rule := range complete.Rules {
			for _, verb := range rule.Verbs {
				edit(ctx, role, func(r *rbacv1.Role) {
					r.Rules = complete.DeepCopy().Rules
					r.Rules[i].Verbs = slices.DeleteFunc(r.Rules[i].Verbs, func(v string) bool { return v == verb })
					if len(r.Rules[i].Verbs) == 0 {
						r.Rules = slices.Delete(r.Rules, i, i+1)
					}
				})
				where := rbac.Need{Group: rule.APIGroups[0], Resource: rule.Resources[0]}.QualifiedResource()
				want := fmt.Sprintf("%s %s in the namespace %s", verb, where, ns)
				By(want)
				isOptional := where == "events.events.k8s.io"
				isFatal := func() bool { return !isOptional && (verb == "list" || verb == "watch") }
				logs := &logRecorder{}
				// The authorizer of the API server may not know the change at once.
				Eventually(func(g Gomega) {
					*logs = logRecorder{}
					mgr := newManager(ns, logs, as(ns))
					Expect(mgr.Add(kopf.New(mgr, everything(&calls{})...))).To(Succeed())
					if !isFatal() {
						op := launch(mgr, logs)
						defer op.stop()
						g.Eventually(func() []string { return logs.find("permission", "reason", want) }).WithTimeout(2 * time.Second).Should(HaveLen(1))
						g.Expect(logs.find("permission", "reason")).To(HaveLen(1), "only the missing permission is named")
						g.Expect(logs.find("An optional permission is missing")).To(HaveLen(map[bool]int{true: 1}[isOptional]))
						return
					}
					startCtx, cancel := context.WithTimeout(ctx, 2*time.Second)
					defer cancel()
					err := mgr.Start(startCtx)
					g.Expect(err).To(MatchError(And(ContainSubstring("permissions are missing:\n  "+want), ContainSubstring("verbs: ["+verb+"]"))))
					g.Expect(strings.Count(err.Error(), ns)).To(Equal(2), "only the missing permission is named, once in words and once as a rule")
				}).WithTimeout(20 * time.Second).Should(Succeed())
				count++
			}
		}
		AddReportEntry("permissions", fmt.Sprintf("%d permissions removed one by one", count))
	}, SpecTimeout(5*minute))

	It("are all named in one error", func(ctx context.Context) {
		ns := newNamespace(ctx)
		mgr := newManager(ns, &logRecorder{}, as(ns))
		Expect(mgr.Add(kopf.New(mgr, everything(&calls{})...))).To(Succeed())
		Expect(failedStart(ctx, mgr)).To(MatchError(And(
			ContainSubstring("list, watch widgets.e2e.example.com in the namespace"), ContainSubstring("patch widgets.e2e.example.com/status"),
			ContainSubstring("create secrets in the namespace"), ContainSubstring("create, patch events.events.k8s.io"), ContainSubstring("list, watch configmaps"),
			ContainSubstring("# in a Role in the namespace %s:", ns), ContainSubstring("resources: [widgets]\n  verbs: [get, list, watch, patch]"))))
	}, SpecTimeout(minute))

	DescribeTable("depend on the mode of the check", func(ctx context.Context, mode rights.Check, granted []string, fails bool) {
		ns := newNamespace(ctx)
		grant(ctx, ns, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "operator"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"*"}, Resources: []string{"widgets"}, Verbs: granted},
		}})
		logs := &logRecorder{}
		mgr := newManager(ns, logs, as(ns))
		Expect(mgr.Add(kopf.New(mgr, kopf.For(&v1.Widget{}).OnCreate("create", ok[W](&calls{}, "create")), kopf.WithRightsCheck(mode)))).To(Succeed())
		if fails {
			Expect(failedStart(ctx, mgr)).To(MatchError(ContainSubstring("permissions are missing")))
			return
		}
		op := launch(mgr, logs)
		Eventually(func() []string { return logs.find("Starting Controller") }).ShouldNot(BeEmpty())
		if warnings := logs.find("does not have a permission"); mode == rights.Skip {
			Expect(warnings).To(BeEmpty())
		} else {
			Expect(warnings).NotTo(BeEmpty())
		}
		op.stop()
	},
		Entry("without patch", SpecTimeout(minute), rights.RequireWatch, []string{"get", "list", "watch"}, false),
		Entry("without patch, but all are required", SpecTimeout(minute), rights.RequireAll, []string{"get", "list", "watch"}, true),
		Entry("without watch", SpecTimeout(minute), rights.RequireWatch, []string{"get", "list", "patch"}, true),
		Entry("without watch, with warnings", SpecTimeout(minute), rights.Warn, []string{"get", "list", "patch"}, false),
		Entry("without watch, not checked", SpecTimeout(minute), rights.Skip, []string{"get", "list", "patch"}, false),
	)

	It("that are revoked in the middle of a storm lose and repeat nothing", func(ctx context.Context) {
		const objects = 60
		ns, logs := newNamespace(ctx), &logRecorder{}
		var mu sync.Mutex
		attempts := map[string]int{}
		options := options(kopf.WithWatchCheck(200*millisecond),
			kopf.For(&v1.Widget{}).
				OnCreate("create", func(_ context.Context, req *kopf.Request[W]) error {
					mu.Lock()
					defer mu.Unlock()
					attempts["create "+req.Object.Name]++
					return nil
				}).
				OnUpdate("update", func(_ context.Context, req *kopf.Request[W]) error {
					mu.Lock()
					defer mu.Unlock()
					attempts[fmt.Sprintf("update %s to %d", req.Object.Name, req.Object.Spec.Size)]++
					return nil
				}))
		complete := rolesOf(ns, options...)[0]
		role := complete.DeepCopy()
		grant(ctx, ns, role)
		mgr := newManager(ns, logs, as(ns))
		operator := kopf.New(mgr, options...)
		Expect(mgr.Add(operator)).To(Succeed())
		launch(mgr, logs)
		Eventually(func() error { return operator.Readyz(nil) }).Should(Succeed())
		for i := range objects {
			create(ctx, widget(ns, fmt.Sprintf("w%d", i)))
			if i == objects/2 {
				edit(ctx, role, func(r *rbacv1.Role) {
					r.Rules = slices.DeleteFunc(r.Rules, func(r rbacv1.PolicyRule) bool { return r.APIGroups[0] == v1.GroupVersion.Group })
				})
			}
		}
		patch := fmt.Sprintf("patch widgets.e2e.example.com in the namespace %s", ns)
		Eventually(func() []string { return logs.find("does not have a permission", patch) }).Should(HaveLen(1))
		Eventually(missingPermissions).Should(ContainElement("e2e.example.com " + ns + " widgets patch"))
		Expect(operator.Readyz(nil)).To(MatchError(ContainSubstring("the permission is missing: " + patch)))
		for i := range objects {
			edit(ctx, widget(ns, fmt.Sprintf("w%d", i)), func(w *v1.Widget) { w.Spec.Size = 7 })
		}
		<-time.After(*revocation)
		Expect(logs.find("does not have a permission", patch)).To(HaveLen(1), "one line for the time without the permission")

		edit(ctx, role, func(r *rbacv1.Role) { r.Rules = complete.DeepCopy().Rules })
		Eventually(func() []string { return logs.find("has received a permission", patch) }).Should(HaveLen(1))
		Eventually(func() error { return operator.Readyz(nil) }).WithTimeout(minute).Should(Succeed())
		Expect(missingPermissions()).NotTo(ContainElement("e2e.example.com " + ns + " widgets patch"))
		Eventually(func() error {
			list := &v1.WidgetList{}
			if err := k8s.List(ctx, list, client.InNamespace(ns)); err != nil {
				return err
			}
			for _, w := range list.Items {
				if len(records(&w)) > 0 || !strings.Contains(w.Annotations[baselineKey], `"size":7`) {
					return errors.New(w.Name + " is not handled")
				}
			}
			return nil
		}).WithTimeout(4 * minute).Should(Succeed())
		mu.Lock()
		defer mu.Unlock()
		for i := range objects {
			name := fmt.Sprintf("w%d", i)
			created, updated := attempts["create "+name], attempts[fmt.Sprintf("update %s to 7", name)]
			Expect(created).To(Equal(1), name)
			Expect(updated).To(BeNumerically("<=", 1), name)
		}
	}, SpecTimeout(10*minute))
})

// allowIn gives a user permissions in a namespace, or in the cluster.
func allowIn(ctx context.Context, user, namespace string, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	if namespace != "" {
		grant(ctx, user, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user}, Rules: rules})
		return
	}
	create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules})
	create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	})
	awaitRights(ctx, user, "", rules...)
}

func ruleFor(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// onlyEvents returns a kind that is only observed.
func onlyEvents[T client.Object](obj T) *kopf.Resource[T] {
	return kopf.For(obj).OnEvent("see", func(context.Context, *kopf.Request[T]) error { return nil })
}

// The objects are empty, and select the kinds of operators.
var (
	anyMaps, anySecrets = &corev1.ConfigMap{}, &corev1.Secret{}
	observe             = []string{"list", "watch"}
)

var _ = Describe("The check of permissions", Serial, func() {
	// restrictedManager returns a manager with cache options, and the user's permissions.
	restrictedManager := func(user string, logs *logRecorder, options cache.Options, setups ...setup) manager.Manager {
		config := rest.CopyConfig(cp.Config)
		for _, s := range append(setups, as(user)) {
			s(config)
		}
		mgr, err := manager.New(config, manager.Options{Scheme: scheme, Logger: logs.Logger(), Metrics: server.Options{BindAddress: "0"}, Cache: options})
		Expect(err).NotTo(HaveOccurred())
		return mgr
	}

	type operator struct {
		cache   cache.Options
		options []kopf.Option
	}
	DescribeTable("lets operators start that have what they need", func(ctx context.Context, prepare func(a, b string, allow func(namespace string, rules ...rbacv1.PolicyRule)) operator) {
		a, b := newNamespace(ctx), newNamespace(ctx)
		op := prepare(a, b, func(namespace string, rules ...rbacv1.PolicyRule) { allowIn(ctx, a, namespace, rules...) })
		logs := &logRecorder{}
		mgr := restrictedManager(a, logs, op.cache)
		running := kopf.New(mgr, op.options...)
		Expect(mgr.Add(running)).To(Succeed())
		launch(mgr, logs)
		Eventually(func() error { return running.Readyz(nil) }).Should(Succeed())
		Expect(logs.find("does not have a permission that it needs")).To(BeEmpty())
	},
		Entry("a namespace for each kind", SpecTimeout(minute), func(a, b string, allow func(string, ...rbacv1.PolicyRule)) operator {
			allow(a, ruleFor("", "configmaps", observe...))
			allow(b, ruleFor("", "secrets", observe...))
			byObject := map[client.Object]cache.ByObject{anyMaps: {Namespaces: map[string]cache.Config{a: {}}}, anySecrets: {Namespaces: map[string]cache.Config{b: {}}}}
			return operator{cache.Options{ByObject: byObject}, options(onlyEvents(anyMaps), onlyEvents(anySecrets))}
		}),
		Entry("a related kind of a cluster-scoped kind", SpecTimeout(minute), func(a, _ string, allow func(string, ...rbacv1.PolicyRule)) operator {
			allow("", ruleFor("", "nodes", "get", "list", "watch", "patch"), ruleFor("", "nodes/status", "patch"))
			allow(a, ruleFor("", "configmaps", observe...))
			nodes := kopf.For(&corev1.Node{}).OnReconcile("r", func(context.Context, *kopf.Request[*corev1.Node]) error { return nil }).
				Watches(anyMaps, func(context.Context, client.Object) []reconcile.Request { return nil })
			return operator{cache.Options{DefaultNamespaces: map[string]cache.Config{a: {}}}, options(nodes)}
		}),
		Entry("a watch selector and caches of the operator's own", SpecTimeout(minute), func(a, _ string, allow func(string, ...rbacv1.PolicyRule)) operator {
			allow(a, ruleFor("", "configmaps", observe...))
			own := cache.Options{DefaultNamespaces: map[string]cache.Config{a: {}}}
			return operator{own, options(onlyEvents(anyMaps), kopf.WithWatchSelector("x=y"), kopf.WithKindCaches(own))}
		}),
		Entry("selected namespaces, with Roles", SpecTimeout(minute), func(a, _ string, allow func(string, ...rbacv1.PolicyRule)) operator {
			allow("", ruleFor("", "namespaces", observe...))
			allow(a, ruleFor("", "configmaps", observe...), ruleFor("", "secrets", "get"))
			return operator{cache.Options{}, options(onlyEvents(anyMaps), kopf.WithNamespaces(a+"*"), kopf.Needs(anySecrets, "get"), kopf.WithRightsCheck(rights.RequireAll))}
		}),
		Entry("one object of a kind", SpecTimeout(minute), func(a, _ string, allow func(string, ...rbacv1.PolicyRule)) operator {
			one := ruleFor("", "configmaps", observe...)
			one.ResourceNames = []string{"only"}
			allow(a, one)
			only := cache.Config{FieldSelector: fields.OneTermEqualSelector("metadata.name", "only")}
			return operator{cache.Options{DefaultNamespaces: map[string]cache.Config{a: only}}, options(onlyEvents(anyMaps), kopf.WithRightsCheck(rights.Skip))}
		}),
	)

	It("follows SetNamespaces", func(ctx context.Context) {
		a, b, logs := newNamespace(ctx), newNamespace(ctx), &logRecorder{}
		for _, namespace := range []string{a, b} {
			allowIn(ctx, a, namespace, ruleFor("", "configmaps", observe...))
		}
		mgr := restrictedManager(a, logs, cache.Options{})
		op := kopf.New(mgr, onlyEvents(anyMaps), kopf.WithNamespaces(a, b), kopf.WithWatchCheck(100*millisecond))
		Expect(mgr.Add(op)).To(Succeed())
		launch(mgr, logs)
		Eventually(func() []string { return logs.find("Handling the namespace", b) }).Should(HaveLen(1))
		Expect(op.SetNamespaces(a)).To(Succeed())
		Eventually(func() []string { return logs.find("no longer handled", b) }).Should(HaveLen(1))
		remove(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: b, Name: a}})
		Consistently(func() error { return op.Readyz(nil) }).WithTimeout(time.Second).Should(Succeed())
		Expect(logs.find("configmaps in the namespace " + b)).To(BeEmpty())
	}, SpecTimeout(minute))

	It("continues after a failed review, and reports each permission once", func(ctx context.Context) {
		a, logs := newNamespace(ctx), &logRecorder{}
		allowIn(ctx, a, a, ruleFor("", "secrets", "get", "list", "watch", "patch"))
		var requests atomic.Int32
		mgr := restrictedManager(a, logs, cache.Options{DefaultNamespaces: map[string]cache.Config{a: {}}}, through(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if strings.Contains(r.URL.Path, "selfsubjectrulesreviews") && requests.Add(1) == 1 {
					return nil, errors.New("connection reset by peer")
				}
				return next.RoundTrip(r)
			})
		}))
		op := kopf.New(mgr, kopf.For(anySecrets).OnReconcile("r", func(context.Context, *kopf.Request[*corev1.Secret]) error { return nil }).Owns(anyMaps),
			kopf.Needs(anyMaps, "get", "list", "watch"), kopf.WithWatchCheck(100*millisecond))
		Expect(mgr.Add(op)).To(Succeed())
		running := launch(mgr, logs)
		Eventually(func() []string { return logs.find("list configmaps in the namespace " + a) }).Should(HaveLen(1))
		Expect(logs.find("list configmaps in the namespace "+a, "Owns of Secret")).To(HaveLen(1), "the highest level counts")
		Expect(missingPermissions()).To(ContainElement(" " + a + " configmaps list"))
		running.stop()
		Expect(missingPermissions()).NotTo(ContainElement(ContainSubstring(a)))
	}, SpecTimeout(minute))
})
