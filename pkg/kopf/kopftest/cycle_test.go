package kopftest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

func TestCycle(t *testing.T) {
	g := NewWithT(t)
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	report := kopftest.Cycle(t, kopftest.Given{Now: noon, Objects: []client.Object{configMap(map[string]string{"color": "red"})}},
		kopf.For(&corev1.ConfigMap{}).
			OnCreate("paint", func(_ context.Context, req *cmRequest) error {
				req.Object.Data["painted"] = time.Now().UTC().Format("15:04")
				req.Eventf("Normal", "Painted", "Paint", "it is red")
				return nil
			}).
			OnCreate("busy", func(context.Context, *cmRequest) error { return kopf.Temporary(errors.New("no time"), time.Hour) }).
			OnDelete("drop", func(context.Context, *cmRequest) error { return nil }))

	obj := configMap(nil)
	g.Expect(report.Get(t, obj)).To(BeTrue())
	g.Expect(obj.Data).To(HaveKeyWithValue("painted", "12:00"))
	g.Expect(obj.Finalizers).To(ConsistOf(kopf.DefaultFinalizer))
	g.Expect(report.Handlers()).To(Equal([]string{"paint", "busy"}))
	g.Expect(report.Requests()).To(Equal([]string{"patch configmaps/orders", "patch configmaps/orders"}))
	g.Expect(report.RequeueAfter).To(BeNumerically("~", time.Hour, time.Second))
	g.Expect(report.Record(t, obj, "busy").Message).To(Equal("no time"))
	g.Expect(report.Record(t, obj, "busy").Delayed).To(BeTemporally("~", noon.Add(time.Hour), time.Second))
	g.Expect(report.Record(t, obj, "paint").Success).To(BeTrue())
	g.Expect(report.Events).To(ContainElement(HaveField("Reason", "Painted")))
	g.Expect(report.Errors).To(BeEmpty())
}

func TestCycle_Faults(t *testing.T) {
	quick := func() *kopf.Resource[*corev1.ConfigMap] {
		return kopf.For(&corev1.ConfigMap{}).OnCreate("paint", func(_ context.Context, req *cmRequest) error {
			req.Object.Data["painted"] = "yes"
			return nil
		})
	}
	for name, test := range map[string]struct {
		fault    kopftest.Fault
		requests []string
		errs     int
	}{
		"no matching request": {kopftest.Fault{Resource: "nothing"}, []string{"patch configmaps/orders"}, 0},
		"a fault":             {kopftest.Fault{Verb: "patch", Code: 500}, []string{"patch configmaps/orders (500)", "patch configmaps/orders"}, 1},
		"two faults":          {kopftest.Fault{Verb: "patch", Code: 503, Times: 2}, []string{"patch configmaps/orders (503)", "patch configmaps/orders (503)", "patch configmaps/orders"}, 2},
		"a lost response": {
			kopftest.Fault{Verb: "patch", Resource: "configmaps", Subresource: "-", Lost: true}, []string{"patch configmaps/orders", "patch configmaps/orders (409)"}, 1,
		},
		"fewer requests than Skip": {kopftest.Fault{Verb: "patch", Skip: 5, Code: 500}, []string{"patch configmaps/orders"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			obj := configMap(map[string]string{"color": "red"})
			report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{obj}, Faults: []kopftest.Fault{test.fault}}, quick())
			g.Expect(report.Requests()).To(Equal(test.requests))
			g.Expect(report.Errors).To(HaveLen(test.errs))
			g.Expect(report.Handlers()).To(Equal([]string{"paint"}), "want one call despite the faults")
			g.Expect(report.Get(t, obj)).To(BeTrue())
			g.Expect(obj).To(kopftest.HaveHandled())
		})
	}
}

func TestFault_BeforeMakesAConcurrentChange(t *testing.T) {
	g := NewWithT(t)
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(configMap(map[string]string{})))
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnCreate("hold", func(_ context.Context, req *cmRequest) error {
			req.Object.Finalizers = append(req.Object.Finalizers, "example.com/mine")
			return nil
		}))
		operator.InjectFaults(kopftest.Fault{Verb: "patch", Before: func() {
			kopftest.Edit(t, cluster, configMap(nil), func(obj *corev1.ConfigMap) { obj.Finalizers = []string{"example.com/other"} })
		}})
		operator.RunUntilQuiet(t)
		obj := configMap(nil)
		cluster.Get(t, obj)
		g.Expect(obj.Finalizers).To(ConsistOf("example.com/mine", "example.com/other"))
	})
}

func TestGiven_ObjectsWithoutNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := failureOf(t, func(tb testing.TB) {
			kopftest.Memory(tb, kopftest.Objects(&corev1.ConfigMap{}))
		})
		NewWithT(t).Expect(said).To(ContainSubstring("name"))
	})
}

// A cache retries failed lists and watches, and can be stopped in a bubble.
func TestFault_ListsAndWatches(t *testing.T) {
	for name, fault := range map[string]kopftest.Fault{
		"list":  {Verb: "list", Resource: "configmaps", Code: 500, Times: 2},
		"watch": {Verb: "watch", Resource: "configmaps", Code: 500, Times: -1},
		"any":   {Code: 500},
	} {
		t.Run(name, func(t *testing.T) {
			report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{configMap(nil)}, Faults: []kopftest.Fault{fault}, Duration: 10 * time.Second},
				kopf.For(&corev1.ConfigMap{}).OnCreate("create", nothing))
			NewWithT(t).Expect(report.Handlers()).To(Equal([]string{"create"}))
		})
	}
}

// An invalid declaration fails the test and leaves no goroutine in the bubble.
func TestRun_InvalidDeclaration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t)
		said := failureOf(t, func(tb testing.TB) { cluster.Run(tb, kopf.For(&corev1.ConfigMap{}).OnCreate("", nothing)) })
		NewWithT(t).Expect(said).To(ContainSubstring("set up the operator"))
	})
}

// All clients of an operator share its connection. Each operator has its own transport.
func TestRunManager_SeveralClients(t *testing.T) {
	cluster := kopftest.Memory(t, kopftest.Objects(configMap(nil)))
	var config *rest.Config
	operator := cluster.RunManager(t, func(mgr manager.Manager) error {
		config = mgr.GetConfig()
		return kopf.SetupWithManager(mgr, kopf.For(&corev1.ConfigMap{}).
			Timer("timer", daemons.Timer{Interval: time.Millisecond}, func(ctx context.Context, req *cmRequest) error {
				var found corev1.SecretList
				return mgr.GetAPIReader().List(ctx, &found)
			}))
	})
	for range 50 {
		if _, err := rest.HTTPClientFor(config); err != nil {
			t.Fatal(err)
		}
	}
	operator.RunUntilQuiet(t)
}

func TestCycle_ObjectsFromThePast(t *testing.T) {
	old := configMap(map[string]string{"color": "red"})
	old.Annotations = map[string]string{"kopf.zalando.org/paint": `{"started":"2026-05-01T12:00:00.000000+00:00","delayed":"2026-05-01T12:10:00.000000+00:00","purpose":"create","retries":1,"success":false,"failure":false}`}
	given := kopftest.Given{Now: time.Date(2026, 5, 1, 12, 9, 0, 0, time.UTC), Objects: []client.Object{old}, Duration: 2 * time.Minute}
	declared := func() *kopf.Resource[*corev1.ConfigMap] {
		return kopf.For(&corev1.ConfigMap{}).OnCreate("paint", func(context.Context, *cmRequest) error { return nil })
	}
	report := kopftest.Cycle(t, given, declared())
	g := NewWithT(t)
	g.Expect(report.Calls).To(HaveLen(1))
	g.Expect(report.Calls[0].Attempt).To(Equal(1))
	g.Expect(report.Calls[0].Began).To(BeTemporally("~", time.Date(2026, 5, 1, 12, 10, 0, 0, time.UTC), time.Second))
}

// Calls and Handlers omit the calls with other reasons.
func TestCalls_Reasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		resource := kopf.For(&corev1.ConfigMap{}).OnCreate("create", nothing).OnUpdate("update", nothing).Timer("tick", daemons.Timer{Interval: time.Second}, nothing)
		kopf.IndexBy(resource, "index", func(context.Context, *cmRequest) (map[string]int, error) { return nil, nil })
		cluster := kopftest.Memory(t)
		obj := configMap(map[string]string{"color": "red"})
		cluster.Create(t, obj)
		operator := cluster.Run(t, resource)
		operator.RunUntilQuiet(t)
		kopftest.Edit(t, cluster, obj, func(obj *corev1.ConfigMap) { obj.Data["color"] = "blue" })
		operator.RunUntilQuiet(t)
		g.Expect(operator.Handlers(obj)).To(ContainElements("index", "tick"))
		g.Expect(operator.Handlers(obj, kopf.ReasonCreate, kopf.ReasonUpdate)).To(Equal([]string{"create", "update"}))
		g.Expect(operator.Calls(kopf.ReasonUpdate)).To(HaveExactElements(HaveField("Handler", "update")))
		g.Expect(len(operator.Calls())).To(BeNumerically(">", 2))
		g.Expect(operator.Calls(kopf.ReasonDelete)).To(BeEmpty())
	})
}

// CycleManager runs handlers that need the manager.
func TestCycleManager(t *testing.T) {
	g := NewWithT(t)
	var names []string
	report := kopftest.CycleManager(t, kopftest.Given{Objects: []client.Object{configMap(map[string]string{"color": "red"})}}, func(mgr manager.Manager) error {
		c := mgr.GetClient()
		return kopf.SetupWithManager(mgr, kopf.For(&corev1.ConfigMap{}).OnCreate("list", func(ctx context.Context, _ *cmRequest) error {
			list := &corev1.ConfigMapList{}
			err := c.List(ctx, list)
			for _, item := range list.Items {
				names = append(names, item.Name)
			}
			return err
		}))
	}, func(options *manager.Options) {
		options.Cache.DefaultNamespaces = map[string]cache.Config{"default": {}}
	})
	g.Expect(report.Handlers(kopf.ReasonCreate)).To(Equal([]string{"list"}))
	g.Expect(report.Handlers(kopf.ReasonDelete)).To(BeEmpty())
	g.Expect(names).To(Equal([]string{"orders"}))
}
