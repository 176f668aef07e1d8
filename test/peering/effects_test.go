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
	It("work in the order of their priorities (PEER-30)", func(ctx context.Context) {
		at := cluster(ctx)
		var all []*operator
		for i := range 3 {
			all = append(all, startOperator(peering.Options{Name: at.name, Identity: fmt.Sprint("p", i), Priority: i}))
		}
		Eventually(all[0].is("")).Should(isPaused())
		Eventually(all[1].is("")).Should(pausedBecause(`"p2"`))
		Eventually(all[2].is("")).Should(works())
		all[2].stop()
		Eventually(all[1].is("")).Should(works())
		Eventually(all[0].is("")).Should(pausedBecause(`"p1"`))
		all[1].stop()
		Eventually(all[0].is("")).Should(works())
	}, SpecTimeout(specTimeout))

	It("elect one of several with equal priority (B-53, SE-36)", func(ctx context.Context) {
		at := cluster(ctx)
		first := startOperator(peering.Options{Name: at.name, Identity: "z", Tie: peering.Elect})
		Eventually(first.is("")).Should(works())
		second := startOperator(peering.Options{Name: at.name, Identity: "a", Tie: peering.Elect})
		Eventually(second.is("")).Should(pausedBecause("won the election"))
		Consistently(first.is("")).Should(works())
		first.stop()
		Eventually(second.is("")).Should(works())
	}, SpecTimeout(specTimeout))

	It("pause only in namespaces with a conflict (PEER-25, PEER-33, PEER-44)", func(ctx context.Context) {
		one, two := newNamespace(ctx), newNamespace(ctx)
		name := unique()
		at := peeringObject{v1.Group, one, name}.create(ctx)
		peeringObject{v1.Group, two, name}.create(ctx)
		o := startOperator(peering.Options{Name: name, Identity: "o", Namespaces: []string{one, two}, Mandatory: true})
		Eventually(o.is(one)).Should(works())
		Eventually(o.is(two)).Should(works())
		kopf := newKopfOperator(at, 1)
		kopf.writeRecord(ctx)
		Eventually(o.is(one)).Should(isPaused())
		Consistently(o.is(two)).Should(works())
		kopf.removeRecord(ctx)
		Eventually(o.is(one)).Should(works())
	}, SpecTimeout(specTimeout))

	It("record an Event for each transition (B-52)", func(ctx context.Context) {
		at := cluster(ctx)
		kopf := newKopfOperator(at, 1)
		kopf.writeRecord(ctx)
		o := startOperator(peering.Options{Name: at.name, Identity: "o"})
		Eventually(o.is("")).Should(isPaused())
		kopf.removeRecord(ctx)
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
	}, SpecTimeout(specTimeout))

	It("write once per lifetime, less the margin (PEER-20)", func(ctx context.Context) {
		at := cluster(ctx)
		tail, began := cp.AuditSinceStart(), time.Now()
		o := startOperator(peering.Options{Name: at.name, Identity: "o", Lifetime: 12 * time.Second})
		Eventually(o.is("")).Should(works())
		kopf := newKopfOperator(at, -1)
		for range 200 { // each record causes an event
			kopf.writeRecord(ctx)
		}
		Consistently(o.is("")).WithTimeout(15 * time.Second).Should(works())
		requests, err := tail.Next()
		Expect(err).NotTo(HaveOccurred())
		most := 1 + int(time.Since(began)/(2*time.Second)) // the interval is at least 2 seconds
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
			sent := patch.Status["o"].LastSeen    // the record contains the time at which it was sent
			if !last.IsZero() && !sent.IsZero() { // the interval is the lifetime of 12 seconds, less a margin of 5 to 10 seconds
				Expect(sent.Sub(last)).To(And(BeNumerically(">=", 2*time.Second), BeNumerically("<", 7*time.Second+slack)))
			}
			last = sent
		}
		Expect(n).To(And(BeNumerically(">=", 3), BeNumerically("<=", most)))
	}, SpecTimeout(specTimeout))

	It("process a thousand events without a write (PEER-20)", func(ctx context.Context) {
		at := cluster(ctx)
		tail := cp.AuditSinceStart()
		o := startOperator(peering.Options{Name: at.name, Identity: "o", Lifetime: time.Hour})
		Eventually(o.is("")).Should(works())
		kopf := newKopfOperator(at, -1)
		for range 1000 {
			kopf.writeRecord(ctx)
		}
		kopf.priority = 1
		kopf.writeRecord(ctx)
		Eventually(o.is("")).Should(isPaused(), "the operator must process all events")
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
		Expect(ours).To(Equal(1), "the operator must write only its first record")
	}, SpecTimeout(specTimeout))

	It("need only the permissions in config/rbac", func(ctx context.Context) {
		name := unique()
		manifests, err := os.ReadFile("../../config/rbac/peering.yaml")
		Expect(err).NotTo(HaveOccurred())
		for text := range bytes.SplitSeq(manifests, []byte("\n---\n")) {
			var role rbacv1.ClusterRole
			Expect(yaml.UnmarshalStrict(text, &role)).To(Succeed())
			Expect(k8s.Create(ctx, &role)).To(Succeed())
		}
		ns := newNamespace(ctx)
		peeringObject{v1.Group, "", name}.create(ctx)
		peeringObject{v1.Group, ns, name}.create(ctx)
		bind := func(role, user string, make func(metav1.ObjectMeta, rbacv1.RoleRef, []rbacv1.Subject) client.Object) {
			Expect(k8s.Create(ctx, make(metav1.ObjectMeta{Namespace: ns, Name: user + "-" + role},
				rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
				[]rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}))).To(Succeed())
		}
		inCluster := func(m metav1.ObjectMeta, ref rbacv1.RoleRef, subjects []rbacv1.Subject) client.Object {
			m.Namespace = ""
			return &rbacv1.ClusterRoleBinding{ObjectMeta: m, RoleRef: ref, Subjects: subjects}
		}
		inNamespace := func(m metav1.ObjectMeta, ref rbacv1.RoleRef, subjects []rbacv1.Subject) client.Object {
			return &rbacv1.RoleBinding{ObjectMeta: m, RoleRef: ref, Subjects: subjects}
		}
		bind("kopf-peering-cluster", name+"-c", inCluster)
		bind("kopf-peering-legacy", name+"-c", inCluster) // the tests serve the legacy group, too
		bind("kopf-peering-namespaced", name+"-n", inNamespace)
		bind("kopf-peering-legacy", name+"-n", inNamespace)
		bind("kopf-peering-people", name+"-p", inCluster)
		c := startOperatorWithConfig(as(name+"-c"), manager.Options{}, peering.Options{Name: name, Identity: "c", Mandatory: true})
		n := startOperatorWithConfig(as(name+"-n"), manager.Options{Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{ns: {}}}},
			peering.Options{Name: name, Identity: "n", Namespaces: []string{ns}, Mandatory: true})
		Eventually(c.is("")).Should(works())
		Eventually(n.is(ns)).Should(works())
		person, err := peering.NewClient(as(name+"-p"), nil)
		Expect(err).NotTo(HaveOccurred())
		for _, target := range []peering.Target{{Name: name}, {Name: name, Namespaces: []string{ns}}} {
			Eventually(func() error { // the authorizer may learn of the binding later than of those of the operators
				_, err := person.Freeze(ctx, target, "ann", peering.Record{Priority: 100, Lifetime: time.Minute})
				return err
			}).Should(Succeed())
		}
		Eventually(c.is("")).Should(isPaused())
		Eventually(n.is(ns)).Should(isPaused())
		Eventually(func() (notes []string) {
			var list eventsv1.EventList
			Expect(k8s.List(ctx, &list)).To(Succeed())
			for _, e := range list.Items {
				if e.Regarding.Name == name {
					notes = append(notes, e.Note)
				}
			}
			return notes
		}).Should(ConsistOf(HavePrefix("c: "), HavePrefix("n: ")))
	}, SpecTimeout(specTimeout))

	It("lose no requests behind a gate", func(ctx context.Context) {
		ns := newNamespace(ctx)
		at := peeringObject{v1.Group, ns, unique()}.create(ctx)
		var mu sync.Mutex
		calls := map[string]int{}
		o := startOperatorWithConfig(cp.Config, manager.Options{Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{ns: {}}}},
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
		createMap := func(name string) *corev1.ConfigMap {
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
			Expect(k8s.Create(ctx, m)).To(Succeed())
			return m
		}
		createMap("before")
		Eventually(counted).Should(Equal(map[string]int{"before": 1}))
		kopf := newKopfOperator(at, 1)
		kopf.writeRecord(ctx)
		Eventually(o.is(ns)).Should(isPaused())
		during := createMap("during")
		for i := range 5 {
			during.Data = map[string]string{"n": fmt.Sprint(i)}
			Expect(k8s.Update(ctx, during)).To(Succeed())
		}
		Consistently(counted).Should(Equal(map[string]int{"before": 1}))
		kopf.removeRecord(ctx)
		Eventually(counted).Should(Equal(map[string]int{"before": 1, "during": 1}))
		Consistently(counted).Should(Equal(map[string]int{"before": 1, "during": 1}))
	}, SpecTimeout(specTimeout))

	It("write no record while they wait for a lease, and can share the leader's identity (MIG-09, PEER-14)", func(ctx context.Context) {
		at := cluster(ctx)
		electing := manager.Options{
			LeaderElection: true, LeaderElectionID: at.name, LeaderElectionNamespace: "default", LeaderElectionReleaseOnCancel: true,
		}
		options := peering.Options{Name: at.name, Identity: "deployment"}
		leader := startOperatorWithConfig(cp.Config, electing, options)
		Eventually(leader.is("")).Should(works())
		second := startOperatorWithConfig(cp.Config, electing, options)
		Consistently(second.is("")).Should(pausedBecause("waits to become the leader"))
		Expect(second.Readyz(nil)).To(Succeed())
		dev := startOperator(peering.Options{Name: at.name, Identity: "laptop", Priority: peering.DevPriority})
		Eventually(leader.is("")).Should(pausedBecause("laptop"))
		dev.stop()
		Eventually(leader.is("")).Should(works())
		leader.stop()
		Eventually(second.is("")).Should(works())
		Expect(at.identities(ctx)).To(Equal([]string{"deployment"}))
	}, SpecTimeout(specTimeout))

	It("pause without permissions and report the missing rule (SE-14, THR-09)", func(ctx context.Context) {
		at := cluster(ctx)
		config := as(at.name)
		grant := func(verbs ...string) { grant(ctx, at.name, verbs...) }
		o := startOperatorWithConfig(config, manager.Options{}, peering.Options{Name: at.name, Identity: "o"})
		const rule = "add an RBAC rule with apiGroups: [kopf.dev], resources: [clusterkopfpeerings], verbs: [list, watch, patch]"
		Eventually(o.is("")).Should(pausedBecause(rule))
		Expect(o.Readyz(nil)).To(MatchError(ContainSubstring(rule)))
		Eventually(func() error { return o.Readyz(nil) }).Should(MatchError(ContainSubstring("apiGroups: [zalando.org], resources: [clusterkopfpeerings, clusterkopfpeerings/status]")))
		grant("list", "watch")
		Eventually(o.is("")).Should(pausedBecause("cannot patch resource"))
		grant("patch")
		Eventually(o.is("")).Should(works())
		Expect(o.Readyz(nil)).To(Succeed())
	}, SpecTimeout(specTimeout))

	It("stay paused if they may list but not watch (SE-14)", func(ctx context.Context) {
		at := cluster(ctx)
		config := as(at.name)
		grant := func(verbs ...string) { grant(ctx, at.name, verbs...) }
		grant("list", "patch")
		o := startOperatorWithConfig(config, manager.Options{}, peering.Options{Name: at.name, Identity: "o"})
		Eventually(o.is("")).Should(pausedBecause("cannot watch resource"))
		Consistently(o.is("")).WithTimeout(5 * time.Second).Should(pausedBecause("cannot watch resource"))
		Expect(o.Readyz(nil)).To(MatchError(ContainSubstring("cannot watch resource")))
		grant("watch")
		Eventually(o.is("")).Should(works())
		Expect(o.Readyz(nil)).To(Succeed())
	}, SpecTimeout(specTimeout))

	It("wait for a mandatory kind and its object (PEER-42, PEER-41)", func(ctx context.Context) {
		bare, err := controlplane.Start(controlplane.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(bare.Stop)
		mandatory := startOperatorWithConfig(bare.Config, manager.Options{}, peering.Options{Identity: "m", Mandatory: true})
		automatic := startOperatorWithConfig(bare.Config, manager.Options{}, peering.Options{Identity: "a", Priority: -1})
		Eventually(automatic.is("")).Should(works())
		Eventually(mandatory.is("")).Should(pausedBecause("install the CustomResourceDefinition clusterkopfpeerings.kopf.dev"))
		Expect(mandatory.Readyz(nil)).NotTo(Succeed())

		_, err = envtest.InstallCRDs(bare.Config, envtest.CRDInstallOptions{Paths: []string{crds}})
		Expect(err).NotTo(HaveOccurred())
		Eventually(mandatory.is("")).Should(pausedBecause("create it with kubectl create -f - from {apiVersion: kopf.dev/v1, kind: ClusterKopfPeering, metadata: {name: default}}"))
		c, err := client.New(bare.Config, client.Options{Scheme: scheme})
		Expect(err).NotTo(HaveOccurred())
		object := &v1.ClusterKopfPeering{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		Expect(c.Create(ctx, object)).To(Succeed())
		Eventually(mandatory.is("")).Should(works())
		Expect(mandatory.Readyz(nil)).To(Succeed())
		// Without Mandatory, discovery runs less often.
		Eventually(automatic.is("")).WithTimeout(35 * time.Second).Should(pausedBecause(`"m"`))
		Expect(c.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		Expect(object.Status).To(HaveLen(2), "the typed object must contain the records")
		Expect(c.Delete(ctx, object)).To(Succeed())
		Eventually(automatic.is("")).Should(works())
		Eventually(mandatory.is("")).Should(pausedBecause("create it"))
		mandatory.stop()
		automatic.stop()
	}, SpecTimeout(specTimeout))
})

// as returns a configuration that impersonates a user.
func as(user string) *rest.Config {
	config := rest.CopyConfig(cp.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	return config
}

// grant permits a user to use the verbs on cluster-scoped peering objects.
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
