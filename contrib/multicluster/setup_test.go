package kopfmulticluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// calls records the calls of handlers.
type calls struct {
	mu   sync.Mutex
	list []string
}

func (c *calls) notef(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, fmt.Sprintf(format, args...))
}

func (c *calls) sorted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.list))
}

func TestSetup_SameNamesDoNotMix(t *testing.T) {
	seen, ns := &calls{}, newNamespace(t)
	before := attempts(NewWithT(t)) // other tests count in the same registry
	f := newFleet(t, func(c Cluster) []kopf.Option {
		configMaps := kopf.For(&corev1.ConfigMap{})
		names := kopf.IndexBy(configMaps, "names", func(_ context.Context, req *kopf.Request[configMap]) (map[string]string, error) {
			return map[string]string{req.Object.Name: req.Object.Data["cluster"]}, nil
		}, kopf.Label(ns))
		note := func(ctx context.Context, req *kopf.Request[configMap]) error {
			stored := newConfigMap(ns, req.Object.Name)
			if err := req.Client.Get(ctx, keyOf(stored), stored); err != nil {
				return err
			}
			seen.notef("%s %s: %s of %s, client %s, index %v", c.Name, req.Reason, req.Object.Name, req.Object.Data["cluster"], stored.Data["cluster"], names.Get("same"))
			return nil
		}
		return []kopf.Option{configMaps.
			OnCreate("created", func(ctx context.Context, req *kopf.Request[configMap]) error {
				req.Object.Data["handled"] = c.Name.String()
				return note(ctx, req)
			}, kopf.Label(ns)).
			OnDelete("deleted", note, kopf.Label(ns))}
	})
	f.add("east", east.Config)
	f.add("west", west.Config)
	f.Eventually(f.ready).Should(Succeed())
	for name, cp := range map[string]*controlplane.ControlPlane{"east": east, "west": west} {
		obj := newConfigMap(ns, "same")
		obj.Data = map[string]string{"cluster": name}
		f.Expect(direct(f.WithT, cp).Create(t.Context(), obj)).To(Succeed())
	}
	created := []string{
		"east create: same of east, client east, index [east]",
		"west create: same of west, client west, index [west]",
	}
	f.Eventually(seen.sorted).Should(Equal(created))
	for name, cp := range map[string]*controlplane.ControlPlane{"east": east, "west": west} {
		f.Eventually(func() map[string]string {
			obj := newConfigMap(ns, "same")
			f.Expect(direct(f.WithT, cp).Get(t.Context(), keyOf(obj), obj)).To(Succeed())
			return obj.Data
		}).Should(Equal(map[string]string{"cluster": name, "handled": name}))
	}
	f.Expect(direct(f.WithT, west).Delete(t.Context(), newConfigMap(ns, "same"))).To(Succeed())
	f.Eventually(seen.sorted).Should(Equal(append(created, "west delete: same of west, client west, index [west]")))
	f.Consistently(seen.sorted).Should(HaveLen(3))

	after, counted := attempts(f.WithT), map[string]float64{}
	for _, handler := range []string{"east/configmap created", "east/configmap deleted", "west/configmap created", "west/configmap deleted"} {
		counted[handler] = after[handler] - before[handler]
	}
	f.Expect(counted).To(Equal(map[string]float64{
		"east/configmap created": 1, "east/configmap deleted": 0, "west/configmap created": 1, "west/configmap deleted": 1}))
	f.Expect(f.log.find("Handler succeeded", `"cluster"="west"`, `"handler"="deleted"`)).To(HaveLen(1))
	f.Expect(f.log.find("Handler succeeded", `"cluster"="east"`, `"handler"="deleted"`)).To(BeEmpty())
}

// attempts returns the values of kopf_handler_attempts_total by kind and handler.
func attempts(g *WithT) map[string]float64 {
	families, err := ctrlmetrics.Registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "kopf_handler_attempts_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			values[labels["kind"]+" "+labels["handler"]] += m.GetCounter().GetValue()
		}
	}
	return values
}

func TestSetup_OneClusterWithTwoNames(t *testing.T) {
	seen, ns := &calls{}, newNamespace(t)
	f := newFleet(t, func(c Cluster) []kopf.Option {
		return []kopf.Option{kopf.For(&corev1.ConfigMap{}).OnCreate("created", func(_ context.Context, req *kopf.Request[configMap]) error {
			seen.notef("%s %s", c.Name, req.Object.Name)
			return nil
		}, kopf.Label(ns))}
	})
	_, proxied := newProxy(t, f.WithT, west.Config) // another address
	f.add("first", west.Config)
	f.Eventually(f.ready).Should(Succeed())
	f.add("second", proxied)
	f.Eventually(f.ready).Should(MatchError(ContainSubstring(`cluster "second" is the same as cluster "first"`)))
	f.Expect(direct(f.WithT, west).Create(t.Context(), newConfigMap(ns, "one"))).To(Succeed())
	f.Eventually(seen.sorted).Should(Equal([]string{"first one"}))
	f.Consistently(seen.sorted).Should(Equal([]string{"first one"}))
	f.Eventually(func() []string { return f.log.find("The operator of a cluster has failed", "is the same as") }).ShouldNot(BeEmpty())

	f.remove("first")
	f.Eventually(f.ready).Should(Succeed())
	f.Expect(direct(f.WithT, west).Create(t.Context(), newConfigMap(ns, "two"))).To(Succeed())
	f.Eventually(seen.sorted).Should(Equal([]string{"first one", "second two"}))
}

func TestSetup_UnreachableCluster(t *testing.T) {
	seen, ns := &calls{}, newNamespace(t)
	f := newFleet(t, func(c Cluster) []kopf.Option {
		return []kopf.Option{kopf.For(&corev1.ConfigMap{}).OnCreate("created", func(_ context.Context, req *kopf.Request[configMap]) error {
			seen.notef("%s %s", c.Name, req.Object.Name)
			return nil
		}, kopf.Label(ns))}
	})
	proxy, proxied := newProxy(t, f.WithT, west.Config)
	f.Expect(proxy.listener.Close()).To(Succeed())
	lazy := connect(f.WithT, proxied)
	f.Expect(f.mgr.Engage(t.Context(), "west", lazy)).To(Succeed())
	f.Expect(f.mgr.Engage(t.Context(), "west", lazy)).To(Succeed(), "a repeated engagement has no effect")
	f.add("east", east.Config)
	f.Eventually(f.ready).Should(MatchError(And(ContainSubstring(`cluster "west"`), ContainSubstring("is not reachable"), Not(ContainSubstring(`"east"`)))))
	f.Expect(direct(f.WithT, east).Create(t.Context(), newConfigMap(ns, "one"))).To(Succeed())
	f.Eventually(seen.sorted).Should(Equal([]string{"east one"}))
	f.Expect(f.operators.healthz(nil)).To(Succeed())
}

func TestEngage_Errors(t *testing.T) {
	f := newFleet(t, func(c Cluster) []kopf.Option {
		if c.Name == "invalid" {
			return []kopf.Option{kopf.For(&corev1.ConfigMap{}).OnCreate("", nil)}
		}
		configMaps := kopf.For(&corev1.ConfigMap{}).OnCreate("created", func(context.Context, *kopf.Request[configMap]) error { return nil })
		switch c.Name {
		case "page":
			return []kopf.Option{configMaps, kopf.WithStatusPage()}
		case "admission":
			return []kopf.Option{configMaps.Validate("check", func(context.Context, *webhooks.Request[configMap]) error { return nil })}
		}
		return []kopf.Option{configMaps}
	})
	cl := connect(f.WithT, west.Config)
	f.Expect(f.mgr.Engage(t.Context(), "", cl)).To(MatchError(ContainSubstring("the name is empty")))
	f.Expect(f.mgr.Engage(t.Context(), "invalid", cl)).To(MatchError(And(ContainSubstring(`engaging cluster "invalid"`), ContainSubstring("the id is empty"))))
	f.Expect(f.mgr.Engage(t.Context(), "page", cl)).To(MatchError(ContainSubstring("cannot add a handler for the path /kopf/")))
	f.Expect(f.mgr.Engage(t.Context(), "admission", cl)).To(MatchError(ContainSubstring("admission handlers")))
	f.Expect(f.mgr.Engage(t.Context(), "west", cl)).To(Succeed())
	f.Expect(f.mgr.Engage(t.Context(), "west", connect(f.WithT, west.Config))).To(MatchError(ContainSubstring("is engaged with another connection")))
	f.Expect(f.operators.engagements).To(HaveLen(1))
}

func TestSetup_Errors(t *testing.T) {
	g := NewWithT(t)
	each := func(Cluster) []kopf.Option { return nil }
	g.Expect(Setup(nil, each)).To(MatchError(ContainSubstring("the manager is nil")))
	mgr, err := mcmanager.New(&rest.Config{Host: "http://127.0.0.1:1"}, nil, mcmanager.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(Setup(mgr, nil)).To(MatchError(ContainSubstring("the function for clusters is nil")))
	g.Expect(Setup(mgr, each)).To(Succeed())
}

func keyOf(obj client.Object) client.ObjectKey { return client.ObjectKeyFromObject(obj) }

// The event handlers of an operator end with it, although its cache lives on.
func TestEngage_AgainWithTheSameConnection(t *testing.T) {
	seen, ns := &calls{}, newNamespace(t)
	f := newFleet(t, func(Cluster) []kopf.Option {
		configMaps := kopf.For(&corev1.ConfigMap{}).OnUpdate("updated", func(_ context.Context, req *kopf.Request[configMap]) error {
			seen.notef("updated %s", req.Object.Data["round"])
			return nil
		}, kopf.Label(ns))
		kopf.IndexBy(configMaps, "index", func(_ context.Context, req *kopf.Request[configMap]) (map[string]int, error) {
			seen.notef("indexed %s", req.Object.Data["round"])
			return map[string]int{req.Object.Name: 1}, nil
		}, kopf.Label(ns))
		return []kopf.Option{configMaps}
	})
	cl := connect(f.WithT, west.Config)
	f.connections.Go(func() { _ = cl.Start(t.Context()) }) // it fails only without a cache
	c, obj := direct(f.WithT, west), newConfigMap(ns, "one")
	f.Expect(c.Create(t.Context(), obj)).To(Succeed())
	for round := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		f.Expect(f.mgr.Engage(ctx, "west", cl)).To(Succeed())
		f.Eventually(f.ready).Should(Succeed())
		f.Eventually(func(g Gomega) {
			g.Expect(c.Get(t.Context(), keyOf(obj), obj)).To(Succeed())
			g.Expect(obj.Annotations).NotTo(BeEmpty(), "the object is handled")
		}).Should(Succeed())
		text := fmt.Sprint(round)
		f.Expect(c.Patch(t.Context(), obj, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"data":{"round":%q}}`, text)))).To(Succeed())
		f.Eventually(seen.sorted).Should(ContainElement("updated " + text))
		f.Consistently(seen.sorted).Should(HaveEach(Or(HavePrefix("updated"), HavePrefix("indexed"))))
		indexed := slices.DeleteFunc(seen.sorted(), func(call string) bool { return call != "indexed "+text })
		f.Expect(len(indexed)).To(BeNumerically("<=", 2), "the index function is called for the edit and for the write of the operator")
		cancel()
		f.ended()
	}
}
