package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	peeringv1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// A laptop is a peer with the high priority of an operator in development.
type laptop struct {
	*peering.Client
	target peering.Target
}

func newLaptop(ctx context.Context, namespace string) *laptop {
	GinkgoHelper()
	create(ctx, &peeringv1.KopfPeering{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}})
	c, err := peering.NewClient(cp.Config, nil)
	Expect(err).NotTo(HaveOccurred())
	return &laptop{c, peering.Target{Name: "default", Namespaces: []string{namespace}}}
}

func (l *laptop) join(ctx context.Context) {
	GinkgoHelper()
	_, err := l.Freeze(ctx, l.target, "laptop", peering.Record{Priority: 666, Lifetime: time.Minute})
	Expect(err).NotTo(HaveOccurred())
}

func (l *laptop) leave(ctx context.Context) {
	GinkgoHelper()
	_, err := l.Resume(ctx, l.target, "laptop")
	Expect(err).NotTo(HaveOccurred())
}

// peeringDaemon returns a daemon that records its start and the reason for its end.
func peeringDaemon[T client.Object](seen *calls) kopf.Handler[T] {
	return func(ctx context.Context, req *kopf.Request[T]) error {
		seen.notef("begins for %s", req.Object.GetName())
		<-ctx.Done()
		seen.notef("ends for %s: %v", req.Object.GetName(), context.Cause(ctx))
		return nil
	}
}

var _ = Describe("Operators among peers", func() {
	type W = *v1.Widget
	with := func(namespaces ...string) kopf.Option {
		return kopf.WithPeering(peering.Options{Namespaces: namespaces, Mandatory: true})
	}

	It("start no handlers while another operator has precedence, and then miss no changes; daemons and timers start again once, without a resume (PEER-50, PEER-51, PEER-53, DAE-40, DAE-06, B-12)", func(ctx context.Context) {
		const objects = 5
		ns, seen := newNamespace(ctx), &calls{}
		other := newLaptop(ctx, ns)
		var widgets []W
		for i := range objects {
			widgets = append(widgets, widget(ns, fmt.Sprint("w", i)))
			create(ctx, widgets[i])
		}
		var started, ticks atomic.Int64
		r := start(ns, options(kopf.For(&v1.Widget{}).
			OnResume("resume", func(context.Context, *kopf.Request[W]) error { seen.notef("resumed"); return nil }).
			OnUpdate("first", func(ctx context.Context, req *kopf.Request[W]) error {
				started.Add(1)
				wait(ctx, 20*time.Millisecond)
				if req.Attempt.Number == 0 {
					return kopf.Temporary(errors.New("not yet"), 30*time.Millisecond)
				}
				seen.notef("first %s %d", req.Object.Name, req.Diff[0].New)
				return nil
			}).
			OnUpdate("second", func(_ context.Context, req *kopf.Request[W]) error {
				started.Add(1)
				seen.notef("second %s %d", req.Object.Name, req.Diff[0].New)
				return nil
			}).
			Timer("tick", daemons.Timer{Interval: 10 * time.Millisecond}, func(context.Context, *kopf.Request[W]) error { started.Add(1); ticks.Add(1); return nil }).
			Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[W]) error {
				started.Add(1)
				seen.notef("daemon begins for %s", req.Object.Name)
				<-ctx.Done()
				seen.notef("daemon ends: %v", context.Cause(ctx))
				return nil
			}), with(ns)))
		begins := func() (n int) {
			for i := range objects {
				n += seen.count(fmt.Sprintf("daemon begins for w%d", i))
			}
			return n
		}
		for round := 1; round <= 4; round++ {
			Eventually(begins).Should(Equal(round * objects))
			for _, w := range widgets {
				edit(ctx, w, func(w W) { w.Spec.Size = 10 * round })
			}
			other.join(ctx)
			Eventually(func() int { return seen.count("daemon ends: " + daemons.ErrPaused.Error()) }).Should(Equal(round * objects))
			var before int64
			Eventually(func() bool { // running handlers end
				was := before
				before = started.Load()
				return was == before
			}).WithPolling(100 * time.Millisecond).Should(BeTrue())
			for _, w := range widgets {
				edit(ctx, w, func(w W) { w.Spec.Size = 10*round + 1 })
			}
			Consistently(started.Load).Should(Equal(before), "no handler may start during the pause")
			n := ticks.Load()
			other.leave(ctx)
			for _, w := range widgets {
				Eventually(seen.all).Should(ContainElements(
					fmt.Sprintf("first %s %d", w.Name, 10*round+1), fmt.Sprintf("second %s %d", w.Name, 10*round+1)))
				handled(ctx, w)
			}
			Eventually(ticks.Load).Should(BeNumerically(">", n))
		}
		Expect(begins()).To(Equal(5 * objects))
		Expect(seen.count("resumed")).To(BeZero())
		Expect(r.log.errors()).To(BeEmpty())
	}, SpecTimeout(2*minute))

	It("continue to watch during a pause, and handle deletions after the pause (PEER-52, PEER-54, B-04)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		other := newLaptop(ctx, ns)
		old := widget(ns, "old")
		create(ctx, old)
		widgets := kopf.For(&v1.Widget{}).
			OnEvent("record", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("sees %s %s", req.Object.Name, req.Event)
				return nil
			}).
			OnCreate("create", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("creates %s", req.Object.Name)
				return nil
			}).
			OnDelete("delete", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("deletes %s", req.Object.Name)
				return nil
			})
		index := kopf.IndexBy(widgets, "names", func(_ context.Context, req *kopf.Request[W]) (map[string]int, error) {
			return map[string]int{req.Object.Name: 1}, nil
		})
		start(ns, options(widgets, with(ns)))
		handled(ctx, old)
		other.join(ctx)
		Eventually(func() float64 { return metric("kopf_paused", nil) }).Should(BeNumerically(">", 0))
		new := widget(ns, "new")
		create(ctx, new)
		Eventually(seen.all).Should(ContainElement("sees new ADDED"))
		Eventually(func() bool { return index.Has("new") }).Should(BeTrue())
		remove(ctx, old)
		Consistently(gone(ctx, old)).Should(BeFalse())
		Expect(seen.all()).NotTo(Or(ContainElement("creates new"), ContainElement("deletes old")))
		other.leave(ctx)
		Eventually(gone(ctx, old)).Should(BeTrue())
		handled(ctx, new)
		Expect(seen.count("creates new")).To(Equal(1))
		Expect(seen.count("deletes old")).To(Equal(1))
	}, SpecTimeout(minute))

	It("of several namespaces are paused separately in each (PEER-33, PEER-44)", func(ctx context.Context) {
		one, two, seen := newNamespace(ctx), newNamespace(ctx), &calls{}
		other := newLaptop(ctx, one)
		newLaptop(ctx, two)
		mgr, err := manager.New(cp.Config, manager.Options{
			Scheme: scheme, Logger: (&logRecorder{}).Logger(), Metrics: server.Options{BindAddress: "0"},
			Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{one: {}, two: {}}},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(mgr.Add(kopf.New(mgr, kopf.For(&v1.Widget{}).
			OnCreate("create", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("creates in %s", req.Object.Namespace)
				return nil
			}).
			Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[W]) error {
				seen.notef("begins in %s", req.Object.Namespace)
				<-ctx.Done()
				seen.notef("ends in %s", req.Object.Namespace)
				return nil
			}), with(one, two)))).To(Succeed())
		launch(mgr, &logRecorder{})
		create(ctx, widget(one, "a"))
		create(ctx, widget(two, "a"))
		Eventually(seen.all).Should(ConsistOf("creates in "+one, "creates in "+two, "begins in "+one, "begins in "+two))
		other.join(ctx)
		Eventually(seen.all).Should(ContainElement("ends in " + one))
		create(ctx, widget(one, "b"))
		create(ctx, widget(two, "b"))
		Eventually(func() int { return seen.count("creates in " + two) }).Should(Equal(2))
		Consistently(func() int { return seen.count("creates in " + one) }).Should(Equal(1))
		Expect(seen.count("ends in " + two)).To(BeZero())
		other.leave(ctx)
		Eventually(func() int { return seen.count("creates in " + one) }).Should(Equal(2))
		Eventually(func() int { return seen.count("begins in " + one) }).Should(Equal(3))
	}, SpecTimeout(minute))

	It("start no handlers in namespaces without peering while a namespace with peering is paused, and handle all changes afterwards (PEER-33, PEER-51)", func(ctx context.Context) {
		named, other, seen := newNamespace(ctx), newNamespace(ctx), &calls{}
		peer := newLaptop(ctx, named)
		mgr, err := manager.New(cp.Config, manager.Options{
			Scheme: scheme, Logger: (&logRecorder{}).Logger(), Metrics: server.Options{BindAddress: "0"},
			Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{named: {}, other: {}}},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(mgr.Add(kopf.New(mgr, kopf.For(&v1.Widget{}).
			OnEvent("record", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("sees %s", req.Object.Name)
				return nil
			}).
			OnCreate("create", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("creates %s", req.Object.Name)
				return nil
			}).
			Daemon("daemon", daemons.Daemon{}, peeringDaemon[W](seen)),
			with(named)))).To(Succeed())
		create(ctx, widget(other, "first"))
		launch(mgr, &logRecorder{})
		Eventually(seen.all).Should(ContainElements("creates first", "begins for first"))
		peer.join(ctx)
		Eventually(seen.all).Should(ContainElement("ends for first: " + daemons.ErrPaused.Error()))
		create(ctx, widget(other, "second"))
		Eventually(seen.all).Should(ContainElement("sees second"))
		Consistently(seen.all).ShouldNot(Or(ContainElement("creates second"), ContainElement("begins for second")))
		peer.leave(ctx)
		Eventually(seen.all).Should(ContainElements("creates second", "begins for second"))
		Eventually(func() int { return seen.count("begins for first") }).Should(Equal(2))
		Consistently(func() int { return seen.count("creates first") }).Should(Equal(1))
	}, SpecTimeout(minute))

	It("with peering in namespaces start no handlers for cluster-scoped objects while any namespace is paused (PEER-33, PEER-51)", func(ctx context.Context) {
		one, two, seen := newNamespace(ctx), newNamespace(ctx), &calls{}
		peers := []*laptop{newLaptop(ctx, one), newLaptop(ctx, two)}
		start(one, options(kopf.For(&corev1.Namespace{}).
			OnUpdate("update", func(_ context.Context, req *kopf.Request[*corev1.Namespace]) error {
				seen.notef("updates %s", req.Object.Labels["of"])
				return nil
			}, kopf.Label("of", filter.Present)).
			Daemon("daemon", daemons.Daemon{}, peeringDaemon[*corev1.Namespace](seen), kopf.Label("of", filter.Equal(one))), with(one, two)))
		label := func(value string) {
			patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{"of":%q}}}`, value))
			Expect(k8s.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: two}}, patch)).To(Succeed())
		}
		begun := func() int { return seen.count("begins for " + two) }
		label(one)
		Eventually(begun).Should(Equal(1))
		for _, peer := range peers {
			peer.join(ctx)
			Eventually(func() int { return seen.count("ends for " + two + ": " + daemons.ErrPaused.Error()) }).Should(Equal(1))
		}
		peers[0].leave(ctx)
		Consistently(begun).Should(Equal(1), "the peer in the other namespace is still present")
		peers[1].leave(ctx)
		Eventually(begun).Should(Equal(2))
		label("") // without the label, no daemon blocks the removal of the namespace
		Eventually(func() int { return seen.count("ends for " + two + ": " + daemons.ErrFilteredOut.Error()) }).Should(Equal(1))
	}, SpecTimeout(minute))

	It("report their state and answer probes during a pause, and call no reconcile handlers (PEER-52, B-52)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		mgr := newManager(ns, &logRecorder{})
		op := kopf.New(mgr,
			kopf.For(&v1.Widget{}).OnReconcile("sync", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("sync %d", req.Object.Spec.Size)
				return nil
			}),
			kopf.OnProbe("seen", func(context.Context) (any, error) { return len(seen.all()), nil }), with(ns))
		Expect(mgr.Add(op)).To(Succeed())
		get := func(handler http.Handler) func() string {
			return func() string {
				response := httptest.NewRecorder()
				handler.ServeHTTP(response, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
				return fmt.Sprint(response.Code, " ", response.Body)
			}
		}
		state := get(op.ServePeering())
		Expect(state()).To(Equal("200 the operator does not run in this process, or is standalone\n"))
		w := widget(ns, "w")
		create(ctx, w)
		launch(mgr, &logRecorder{})
		Eventually(state).Should(And(HavePrefix("503 namespace "+ns+": paused: "), ContainSubstring("create it with kubectl")))
		other := newLaptop(ctx, ns)
		Eventually(state).Should(HavePrefix("200 namespace " + ns + ": works: "))
		Eventually(seen.all).Should(Equal([]string{"sync 1"}))
		other.join(ctx)
		Eventually(state).Should(HavePrefix("200 namespace " + ns + `: paused: "laptop" (priority 666) has precedence over this operator's priority 0`))
		Expect(op.Readyz(nil)).To(Succeed())
		edit(ctx, w, func(w W) { w.Spec.Size = 2 })
		Consistently(seen.all).Should(Equal([]string{"sync 1"}))
		Expect(get(op.ServeProbes())()).To(MatchRegexp(`^200 {"seen":1}`))
		other.leave(ctx)
		Eventually(seen.all).Should(Equal([]string{"sync 1", "sync 2"}))
		Consistently(seen.all).Should(HaveLen(2))
	}, SpecTimeout(minute))

	It("of equal priority all pause and log how to resolve the conflict, or elect one of them (PEER-32, PEER-35, B-53)", func(ctx context.Context) {
		for _, tie := range []peering.Tie{peering.PauseAll, peering.Elect} {
			ns, seen := newNamespace(ctx), &calls{}
			newLaptop(ctx, ns)
			var all []*running
			var state []func() string
			for _, name := range []string{"b", "a"} {
				mgr := newManager(ns, &logRecorder{})
				op := kopf.New(mgr, kopf.For(&v1.Widget{}).OnCreate("create", func(_ context.Context, req *kopf.Request[W]) error {
					seen.notef("%s creates %s", name, req.Object.Name)
					return nil
				}), kopf.WithPeering(peering.Options{Identity: name, Namespaces: []string{ns}, Mandatory: true, Tie: tie}))
				Expect(mgr.Add(op)).To(Succeed())
				all = append(all, launch(mgr, &logRecorder{}))
				state = append(state, func() string {
					response := httptest.NewRecorder()
					op.ServePeering().ServeHTTP(response, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
					return response.Body.String()
				})
				Eventually(state[len(state)-1]).ShouldNot(Or(ContainSubstring("not observed yet"), ContainSubstring("does not run")))
			}
			if tie == peering.PauseAll {
				Eventually(state[0]).Should(ContainSubstring("change the priority of one"))
				Eventually(state[1]).Should(ContainSubstring("change the priority of one"))
			} else {
				Eventually(state[1]).Should(ContainSubstring("won the election"))
			}
			create(ctx, widget(ns, "one"))
			if tie == peering.PauseAll {
				Consistently(seen.all).Should(BeEmpty())
			} else {
				Eventually(seen.all).Should(Equal([]string{"b creates one"}))
			}
			all[0].stop()
			create(ctx, widget(ns, "two"))
			Eventually(seen.all).Should(ContainElement("a creates two"))
			if tie == peering.PauseAll {
				Eventually(seen.all).Should(ConsistOf("a creates one", "a creates two"))
			} else {
				Consistently(seen.all).Should(Equal([]string{"b creates one", "a creates two"}))
			}
			all[1].stop()
		}
	}, SpecTimeout(minute))

	It("are limited to one per manager, because two would pause for each other", func(ctx context.Context) {
		ns := newNamespace(ctx)
		newLaptop(ctx, ns)
		mgr := newManager(ns, &logRecorder{})
		Expect(mgr.Add(kopf.New(mgr, kopf.For(&v1.Widget{}).OnEvent("record", ok[W](&calls{}, "record")), with(ns)))).To(Succeed())
		Expect(mgr.Add(kopf.New(mgr, kopf.For(&corev1.ConfigMap{}).OnEvent("record", ok[*corev1.ConfigMap](&calls{}, "record")), with(ns)))).To(Succeed())
		Expect(mgr.Start(ctx)).To(MatchError(ContainSubstring(`another operator of this manager has the same KopfPeering "default"`)))
	}, SpecTimeout(minute))

	It("that require peers wait for the peering object, and log how to create it (PEER-43)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		create(ctx, widget(ns, "a"))
		mgr := newManager(ns, &logRecorder{})
		op := kopf.New(mgr, kopf.For(&v1.Widget{}).OnCreate("create", ok[W](seen, "create")), with(ns))
		Expect(mgr.Add(op)).To(Succeed())
		launch(mgr, &logRecorder{})
		Eventually(func() error { return op.Readyz(nil) }).Should(MatchError(ContainSubstring("KopfPeering")))
		Consistently(seen.all).Should(BeEmpty())
		newLaptop(ctx, ns)
		Eventually(seen.all).Should(HaveLen(1))
		Eventually(func() error { return op.Readyz(nil) }).Should(Succeed())
	}, SpecTimeout(minute))
})
