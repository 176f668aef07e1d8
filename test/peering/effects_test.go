package peering

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	v1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
)

var _ = Describe("Operators", func() {
	It("follow each other in a chain of three (PEER-30)", func(ctx context.Context) {
		at := cluster(ctx)
		var all []*operator
		for i := range 3 {
			all = append(all, operate(peering.Options{Name: at.name, Identity: fmt.Sprint("p", i), Priority: i}))
		}
		Eventually(all[0].is("")).Should(isPaused())
		Eventually(all[1].is("")).Should(pausedBecause(`"p2"`))
		Eventually(all[2].is("")).Should(works())
		all[2].stop()
		Eventually(all[1].is("")).Should(works())
		Eventually(all[0].is("")).Should(pausedBecause(`"p1"`))
		all[1].stop()
		Eventually(all[0].is("")).Should(works())
	}, SpecTimeout(patience))

	It("elect one among equals (B-53, SE-36)", func(ctx context.Context) {
		at := cluster(ctx)
		first := operate(peering.Options{Name: at.name, Identity: "z", Tie: peering.Elect})
		Eventually(first.is("")).Should(works())
		second := operate(peering.Options{Name: at.name, Identity: "a", Tie: peering.Elect})
		Eventually(second.is("")).Should(pausedBecause("not the one to work"))
		Consistently(first.is("")).Should(works())
		first.stop()
		Eventually(second.is("")).Should(works())
	}, SpecTimeout(patience))

	It("are paused in the namespaces alone where there is a conflict (PEER-25, PEER-33, PEER-44)", func(ctx context.Context) {
		one, two := newNamespace(ctx), newNamespace(ctx)
		name := unique()
		at := where{v1.Group, one, name}.create(ctx)
		where{v1.Group, two, name}.create(ctx)
		o := operate(peering.Options{Name: name, Identity: "o", Namespaces: []string{one, two}, Mandatory: true})
		Eventually(o.is(one)).Should(works())
		Eventually(o.is(two)).Should(works())
		kopf := newPython(at, 1)
		kopf.touch(ctx)
		Eventually(o.is(one)).Should(isPaused())
		Consistently(o.is(two)).Should(works())
		kopf.leave(ctx)
		Eventually(o.is(one)).Should(works())
	}, SpecTimeout(patience))

	It("post an Event for each transition (B-52)", func(ctx context.Context) {
		at := cluster(ctx)
		kopf := newPython(at, 1)
		kopf.touch(ctx)
		o := operate(peering.Options{Name: at.name, Identity: "o"})
		Eventually(o.is("")).Should(isPaused())
		kopf.leave(ctx)
		Eventually(o.is("")).Should(works())
		Eventually(func() (reasons []string) {
			var list eventsv1.EventList
			Expect(k8s.List(ctx, &list, client.InNamespace("default"))).To(Succeed())
			for _, e := range list.Items {
				if e.Regarding.Name == at.name {
					Expect(e.Note).To(HavePrefix("o: "))
					reasons = append(reasons, e.Reason)
				}
			}
			return reasons
		}).Should(ConsistOf("Paused", "Resumed"))
	}, SpecTimeout(patience))

	It("cost one write for each lifetime, less the margin (PEER-20)", func(ctx context.Context) {
		at := cluster(ctx)
		tail := cp.Audit()
		o := operate(peering.Options{Name: at.name, Identity: "o", Lifetime: 12 * time.Second})
		Eventually(o.is("")).Should(works())
		kopf := newPython(at, -1)
		for range 200 { // looks
			kopf.touch(ctx)
		}
		Consistently(o.is("")).WithTimeout(15 * time.Second).Should(works())
		requests, err := tail.Next()
		Expect(err).NotTo(HaveOccurred())
		var last time.Time
		n := 0
		for _, r := range requests {
			if r.Name != at.name || r.Group != v1.Group || !strings.Contains(string(r.Body), `"o"`) {
				continue
			}
			n++
			var patch struct {
				Status map[string]struct {
					LastSeen time.Time `json:"lastseen"`
				} `json:"status"`
			}
			Expect(json.Unmarshal(r.Body, &patch)).To(Succeed())
			sent := patch.Status["o"].LastSeen    // a request may take its time to come
			if !last.IsZero() && !sent.IsZero() { // 12 less 5 to 10
				Expect(sent.Sub(last)).To(And(BeNumerically(">=", 2*time.Second), BeNumerically("<", 7*time.Second+slack)))
			}
			last = sent
		}
		Expect(n).To(And(BeNumerically(">=", 3), BeNumerically("<=", 9)))
	}, SpecTimeout(patience))

	It("look a thousand times without a write (PEER-20)", func(ctx context.Context) {
		at := cluster(ctx)
		tail := cp.Audit()
		o := operate(peering.Options{Name: at.name, Identity: "o", Lifetime: time.Hour})
		Eventually(o.is("")).Should(works())
		kopf := newPython(at, -1)
		for range 1000 {
			kopf.touch(ctx)
		}
		kopf.priority = 1
		kopf.touch(ctx)
		Eventually(o.is("")).Should(isPaused(), "it has seen them all")
		requests, err := tail.Next()
		Expect(err).NotTo(HaveOccurred())
		theirs, ours := 0, 0
		for _, r := range requests {
			switch {
			case r.Name != at.name || r.Group != v1.Group || r.Verb != "patch":
			case strings.Contains(string(r.Body), `"o"`):
				ours++
			default:
				theirs++
			}
		}
		Expect(theirs).To(Equal(1001))
		Expect(ours).To(Equal(1), "its first sign of life")
	}, SpecTimeout(patience))

	It("need no more permissions than config/rbac grants", func(ctx context.Context) {
		name := unique()
		manifests, err := os.ReadFile("../../config/rbac/peering.yaml")
		Expect(err).NotTo(HaveOccurred())
		for text := range bytes.SplitSeq(manifests, []byte("\n---\n")) {
			var role rbacv1.ClusterRole
			Expect(yaml.UnmarshalStrict(text, &role)).To(Succeed())
			Expect(k8s.Create(ctx, &role)).To(Succeed())
		}
		ns := newNamespace(ctx)
		where{v1.Group, "", name}.create(ctx)
		where{v1.Group, ns, name}.create(ctx)
		bind := func(role, user string, make func(metav1.ObjectMeta, rbacv1.RoleRef, []rbacv1.Subject) client.Object) {
			Expect(k8s.Create(ctx, make(metav1.ObjectMeta{Namespace: ns, Name: user + "-" + role},
				rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
				[]rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}))).To(Succeed())
		}
		inCluster := func(m metav1.ObjectMeta, ref rbacv1.RoleRef, who []rbacv1.Subject) client.Object {
			m.Namespace = ""
			return &rbacv1.ClusterRoleBinding{ObjectMeta: m, RoleRef: ref, Subjects: who}
		}
		inNamespace := func(m metav1.ObjectMeta, ref rbacv1.RoleRef, who []rbacv1.Subject) client.Object {
			return &rbacv1.RoleBinding{ObjectMeta: m, RoleRef: ref, Subjects: who}
		}
		bind("kopf-peering-cluster", name+"-c", inCluster)
		bind("kopf-peering-legacy", name+"-c", inCluster) // the group is served here
		bind("kopf-peering-namespaced", name+"-n", inNamespace)
		bind("kopf-peering-legacy", name+"-n", inNamespace)
		bind("kopf-peering-people", name+"-p", inCluster)
		c := operateAs(as(name+"-c"), manager.Options{}, peering.Options{Name: name, Identity: "c", Mandatory: true})
		n := operateAs(as(name+"-n"), manager.Options{Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{ns: {}}}},
			peering.Options{Name: name, Identity: "n", Namespaces: []string{ns}, Mandatory: true})
		Eventually(c.is("")).Should(works())
		Eventually(n.is(ns)).Should(works())
		person, err := peering.NewClient(as(name+"-p"), nil)
		Expect(err).NotTo(HaveOccurred())
		for _, target := range []peering.Target{{Name: name}, {Name: name, Namespaces: []string{ns}}} {
			_, err := person.Freeze(ctx, target, "ann", peering.Record{Priority: 100, Lifetime: time.Minute})
			Expect(err).NotTo(HaveOccurred())
		}
		Eventually(c.is("")).Should(isPaused())
		Eventually(n.is(ns)).Should(isPaused())
		Eventually(func() (notes []string) { // of the transitions
			var list eventsv1.EventList
			Expect(k8s.List(ctx, &list)).To(Succeed())
			for _, e := range list.Items {
				if e.Regarding.Name == name {
					notes = append(notes, e.Note)
				}
			}
			return notes
		}).Should(ConsistOf(HavePrefix("c: "), HavePrefix("n: ")))
	}, SpecTimeout(patience))

	It("are gated, and lose nothing", func(ctx context.Context) {
		ns := newNamespace(ctx)
		at := where{v1.Group, ns, unique()}.create(ctx)
		var mu sync.Mutex
		calls := map[string]int{}
		o := operateAs(cp.Config, manager.Options{Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{ns: {}}}},
			peering.Options{Name: at.name, Identity: "o", Namespaces: []string{ns}},
			func(mgr manager.Manager, p *peering.Peering) {
				gate := p.Gate(reconcile.Func(func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
					mu.Lock()
					defer mu.Unlock()
					calls[r.Name]++
					return reconcile.Result{}, nil
				}))
				Expect(builder.ControllerManagedBy(mgr).Named(at.name).For(&corev1.ConfigMap{}).WatchesRawSource(gate).Complete(gate)).To(Succeed())
			})
		counted := func() map[string]int {
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(calls)
		}
		make1 := func(name string) *corev1.ConfigMap {
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
			Expect(k8s.Create(ctx, m)).To(Succeed())
			return m
		}
		make1("before")
		Eventually(counted).Should(Equal(map[string]int{"before": 1}))
		kopf := newPython(at, 1)
		kopf.touch(ctx)
		Eventually(o.is(ns)).Should(isPaused())
		during := make1("during")
		for i := range 5 {
			during.Data = map[string]string{"n": fmt.Sprint(i)}
			Expect(k8s.Update(ctx, during)).To(Succeed())
		}
		Consistently(counted).Should(Equal(map[string]int{"before": 1}))
		kopf.leave(ctx)
		Eventually(counted).Should(Equal(map[string]int{"before": 1, "during": 1}))
		Consistently(counted).Should(Equal(map[string]int{"before": 1, "during": 1}))
	}, SpecTimeout(patience))

	It("that stand by for a lease have no record, and may share the identity of the leader (MIG-09, PEER-14)", func(ctx context.Context) {
		at := cluster(ctx)
		electing := manager.Options{
			LeaderElection: true, LeaderElectionID: at.name, LeaderElectionNamespace: "default", LeaderElectionReleaseOnCancel: true,
		}
		options := peering.Options{Name: at.name, Identity: "deployment"}
		leader := operateAs(cp.Config, electing, options)
		Eventually(leader.is("")).Should(works())
		second := operateAs(cp.Config, electing, options)
		Consistently(second.is("")).Should(pausedBecause("stands by"))
		Expect(second.Readyz(nil)).To(Succeed())
		dev := operate(peering.Options{Name: at.name, Identity: "laptop", Priority: peering.DevPriority})
		Eventually(leader.is("")).Should(pausedBecause("laptop"))
		dev.stop()
		Eventually(leader.is("")).Should(works())
		leader.stop()
		Eventually(second.is("")).Should(works())
		Expect(at.identities(ctx)).To(Equal([]string{"deployment"}))
	}, SpecTimeout(patience))

	It("without permissions are paused, and say which rule is missing (SE-14, THR-09)", func(ctx context.Context) {
		at := cluster(ctx)
		config := as(at.name)
		grant := func(verbs ...string) { grant(ctx, at.name, verbs...) }
		o := operateAs(config, manager.Options{}, peering.Options{Name: at.name, Identity: "o"})
		const rule = "grant it by a rule with apiGroups: [kopf.dev], resources: [clusterkopfpeerings], verbs: [list, watch, patch]"
		Eventually(o.is("")).Should(pausedBecause(rule))
		Expect(o.Readyz(nil)).To(MatchError(ContainSubstring(rule)))
		Eventually(func() error { return o.Readyz(nil) }).Should(MatchError(ContainSubstring("apiGroups: [zalando.org], resources: [clusterkopfpeerings, clusterkopfpeerings/status]")))
		grant("list", "watch")
		Eventually(o.is("")).Should(pausedBecause("cannot patch resource"))
		grant("patch")
		Eventually(o.is("")).Should(works())
		Expect(o.Readyz(nil)).To(Succeed())
	}, SpecTimeout(patience))

	It("that may list and not watch are paused, and stay so (SE-14)", func(ctx context.Context) {
		at := cluster(ctx)
		config := as(at.name)
		grant := func(verbs ...string) { grant(ctx, at.name, verbs...) }
		grant("list", "patch")
		o := operateAs(config, manager.Options{}, peering.Options{Name: at.name, Identity: "o"})
		Eventually(o.is("")).Should(pausedBecause("cannot watch resource"))
		Consistently(o.is("")).WithTimeout(5 * time.Second).Should(pausedBecause("cannot watch resource"))
		Expect(o.Readyz(nil)).To(MatchError(ContainSubstring("cannot watch resource")))
		grant("watch")
		Eventually(o.is("")).Should(works())
		Expect(o.Readyz(nil)).To(Succeed())
	}, SpecTimeout(patience))

	It("wait for a mandatory kind and its object (PEER-42, PEER-41)", func(ctx context.Context) {
		bare, err := controlplane.Start(controlplane.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(bare.Stop)
		mandatory := operateAs(bare.Config, manager.Options{}, peering.Options{Identity: "m", Mandatory: true})
		automatic := operateAs(bare.Config, manager.Options{}, peering.Options{Identity: "a", Priority: -1})
		Eventually(automatic.is("")).Should(works())
		Eventually(mandatory.is("")).Should(pausedBecause("install the CustomResourceDefinition clusterkopfpeerings.kopf.dev"))
		Expect(mandatory.Readyz(nil)).NotTo(Succeed())

		_, err = envtest.InstallCRDs(bare.Config, envtest.CRDInstallOptions{Paths: []string{crds}})
		Expect(err).NotTo(HaveOccurred())
		Eventually(mandatory.is("")).Should(pausedBecause("create it with kubectl create -f -, from {apiVersion: kopf.dev/v1, kind: ClusterKopfPeering, metadata: {name: default}}"))
		c, err := client.New(bare.Config, client.Options{Scheme: scheme})
		Expect(err).NotTo(HaveOccurred())
		object := &v1.ClusterKopfPeering{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		Expect(c.Create(ctx, object)).To(Succeed())
		Eventually(mandatory.is("")).Should(works())
		Expect(mandatory.Readyz(nil)).To(Succeed())
		// The other one asks less often whether there is the kind by now.
		Eventually(automatic.is("")).WithTimeout(35 * time.Second).Should(pausedBecause(`"m"`))
		Expect(c.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		Expect(object.Status).To(HaveLen(2), "the typed objects have the records, too")
		Expect(c.Delete(ctx, object)).To(Succeed())
		Eventually(automatic.is("")).Should(works())
		Eventually(mandatory.is("")).Should(pausedBecause("create it"))
		mandatory.stop()
		automatic.stop()
	}, SpecTimeout(patience))
})

// as is the access of a user without permissions, but for those that are granted.
func as(user string) *rest.Config {
	config := rest.CopyConfig(cp.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	return config
}

// grant lets a user do that with peering objects of the cluster.
func grant(ctx context.Context, user string, verbs ...string) {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user + "-" + verbs[0]}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"kopf.dev"}, Resources: []string{"clusterkopfpeerings"}, Verbs: verbs},
		{APIGroups: []string{"zalando.org"}, Resources: []string{"clusterkopfpeerings", "clusterkopfpeerings/status"}, Verbs: verbs},
	}}
	Expect(k8s.Create(ctx, role)).To(Succeed())
	Expect(k8s.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	})).To(Succeed())
}
