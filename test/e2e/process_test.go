package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// metric returns the value of a series of this process by its labels, or 0 if it is missing.
func metric(name string, labels map[string]string) (value float64) {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, series := range family.GetMetric() {
			if hasLabels(series, labels) {
				value += series.GetCounter().GetValue() + series.GetGauge().GetValue()
			}
		}
	}
	return value
}

func hasLabels(series *dto.Metric, labels map[string]string) bool {
	found := 0
	for _, label := range series.GetLabel() {
		if want, ok := labels[label.GetName()]; ok && want == label.GetValue() {
			found++
		}
	}
	return found == len(labels)
}

var _ = Describe("Memos", func() {
	type W = *v1.Widget

	It("are shared by all handlers of an object, within one process (MEMO-01, MEMO-04, MEMO-05)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		memo := kopf.NewMemo[[]string]("visits")
		visit := func(by string) kopf.Handler[W] {
			return func(ctx context.Context, req *kopf.Request[W]) error {
				visits, _ := memo.Load(ctx)
				visits = append(slices.Clip(visits), by)
				memo.Store(ctx, visits)
				seen.notef("%s %s", req.Object.Name, strings.Join(visits, ","))
				return nil
			}
		}
		widgets := kopf.For(&v1.Widget{})
		kopf.IndexBy(widgets, "index", func(ctx context.Context, req *kopf.Request[W]) (map[string]int, error) {
			if visits, known := memo.Load(ctx); !known {
				memo.Store(ctx, append(visits, "index"))
			}
			return nil, nil
		})
		widgets.
			OnCreate("created", func(ctx context.Context, req *kopf.Request[W]) error {
				req.Sub("sub", visit("sub"))
				return visit("create")(ctx, req)
			}).
			OnUpdate("updated", visit("update")).
			OnDelete("deleted", visit("delete"), kopf.Optional())
		op := start(ns, options(widgets))
		one, two := widget(ns, "one"), widget(ns, "two")
		create(ctx, one)
		create(ctx, two)
		handled(ctx, one)
		handled(ctx, two)
		Expect(seen.all()).To(ConsistOf("one index,create", "one index,create,sub", "two index,create", "two index,create,sub"))
		edit(ctx, one, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(ContainElement("one index,create,sub,update"))
		remove(ctx, one)
		Eventually(seen.all).Should(ContainElement("one index,create,sub,update,delete"))
		again := widget(ns, "one")
		create(ctx, again)
		handled(ctx, again)
		Expect(seen.all()[6:]).To(Equal([]string{"one index,create", "one index,create,sub"}), "MEMO-04: a new object must have a new memo")
		op.stop()
		start(ns, options(widgets))
		edit(ctx, again, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(ContainElement("one index,update"), "MEMO-05: a new process must start with empty memos")
	}, SpecTimeout(minute))
})

var _ = Describe("Startup and cleanup handlers", func() {
	type W = *v1.Widget

	It("that fail during startup stop the manager, which returns the error (ACT-04, ACT-07, RUN-25)", func(ctx context.Context) {
		ns, seen, wire := newNamespace(ctx), &calls{}, &writeRecorder{}
		mgr := newManager(ns, &logRecorder{}, wire.setup())
		Expect(mgr.Add(kopf.New(mgr,
			kopf.OnStartup("connect", func(context.Context) error { return kopf.Permanent(errOutOfOrder) }),
			kopf.OnCleanup("disconnect", func(context.Context) error { seen.notef("cleanup"); return nil }),
			kopf.For(&v1.Widget{}).OnCreate("created", ok[W](seen, "created"))))).To(Succeed())
		create(ctx, widget(ns, "one"))
		err := failedStart(ctx, mgr)
		Expect(err).To(MatchError(And(ContainSubstring(`OnStartup("connect")`), ContainSubstring(errOutOfOrder.Error()))))
		Expect(seen.all()).To(BeEmpty())
	}, SpecTimeout(minute))

	It("run before the first handler starts and after the last one has finished (ACT-04, ACT-06, RUN-01, RUN-23, RUN-28)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		create(ctx, obj)
		entered, release := make(chan struct{}), make(chan struct{})
		op := start(ns, options(
			kopf.OnStartup("startup", func(ctx context.Context) error {
				n := len(seen.all())
				if seen.notef("startup"); n == 0 {
					return kopf.Temporary(errOutOfOrder, 100*time.Millisecond)
				}
				return nil
			}),
			kopf.OnCleanup("cleanup", func(ctx context.Context) error { seen.notef("cleanup %v", ctx.Err()); return nil }),
			kopf.For(&v1.Widget{}).OnCreate("created", func(context.Context, *kopf.Request[W]) error {
				close(entered)
				<-release
				seen.notef("created")
				return nil
			})))
		Eventually(entered).Should(BeClosed())
		stopped := make(chan struct{})
		go func() {
			defer GinkgoRecover()
			defer close(stopped)
			op.stop()
		}()
		Consistently(seen.all, quietTime).Should(Equal([]string{"startup", "startup"}))
		close(release)
		Eventually(stopped).Should(BeClosed())
		Expect(seen.all()).To(Equal([]string{"startup", "startup", "created", "cleanup <nil>"}))
		handled(ctx, obj) // the operator has written the outcome during its shutdown
	}, SpecTimeout(minute))
})

var _ = Describe("Health", func() {
	type W = *v1.Widget

	It("fails only if objects wait and the operator makes no progress (SE-14, SE-16)", func(ctx context.Context) {
		const limit = 2 * time.Second
		ns, logs := newNamespace(ctx), &logRecorder{}
		mgr := newManager(ns, logs)
		release := make(chan struct{})
		op := kopf.New(mgr, kopf.WithStuckAfter(limit), kopf.For(&v1.Widget{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 1}), kopf.WithName("stuck")).
			OnCreate("created", func(ctx context.Context, req *kopf.Request[W]) error {
				if req.Object.Name == "hangs" {
					<-release
				}
				if strings.HasPrefix(req.Object.Name, "slow") {
					<-time.After(limit / 3)
				}
				if req.Object.Name == "fails" {
					return kopf.Temporary(errOutOfOrder, time.Hour)
				}
				return nil
			}))
		Expect(mgr.Add(op)).To(Succeed())
		Expect(op.Healthz(nil)).To(Succeed())
		Expect(op.Readyz(nil)).To(Succeed(), "an operator that has not started must be ready")
		launch(mgr, logs)
		Eventually(func() error { return op.Readyz(nil) }).Should(Succeed())

		healthy := func(why string, names ...string) {
			GinkgoHelper()
			for _, name := range names {
				create(ctx, widget(ns, name))
			}
			Consistently(func() error { return op.Healthz(nil) }, 2*limit).Should(Succeed(), why)
		}
		healthy("an idle operator must be healthy")
		healthy("an operator with progress must be healthy", "slow1", "slow2", "slow3", "slow4", "slow5", "slow6")
		healthy("objects that wait for a backoff must not count", "fails")
		healthy("a hanging handler must not count if no object waits", "hangs")
		create(ctx, widget(ns, "waits"))
		Expect(op.Healthz(nil)).To(Succeed(), "the limit has not passed yet")
		Eventually(func() error { return op.Healthz(nil) }).Should(MatchError(And(ContainSubstring("stuck"), ContainSubstring("1 objects wait"))))
		Eventually(func() float64 { return metric("kopf_oldest_unhandled_seconds", map[string]string{"kind": "stuck"}) }).
			Should(BeNumerically(">=", limit.Seconds()))
		close(release)
		Eventually(func() error { return op.Healthz(nil) }).Should(Succeed())
	}, SpecTimeout(minute))

	It("is exported as a metric (SE-16)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		release := make(chan struct{})
		start(ns, options(kopf.For(&v1.Widget{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 1}), kopf.WithName("unchecked")).
			OnCreate("created", func(context.Context, *kopf.Request[W]) error { <-release; return nil })))
		defer close(release)
		create(ctx, widget(ns, "one"))
		create(ctx, widget(ns, "two"))
		Eventually(func() float64 { return metric("kopf_oldest_unhandled_seconds", map[string]string{"kind": "unchecked"}) }).
			Should(BeNumerically(">", 1))
	}, SpecTimeout(minute))

	It("reports readiness at the endpoint of the manager when caches and indexes are complete (ACT-04, IDX-15, PROBE-05, RUN-03)", func(ctx context.Context) {
		ns, logs := newNamespace(ctx), &logRecorder{}
		create(ctx, widget(ns, "one"))
		mgr := newManager(ns, logs)
		var startup, indexing atomic.Bool
		startup.Store(true)
		indexing.Store(true)
		entered := make(chan struct{}, 1)
		widgets := kopf.For(&v1.Widget{})
		kopf.IndexBy(widgets, "slow", func(context.Context, *kopf.Request[W]) (map[string]int, error) {
			select {
			case entered <- struct{}{}:
			default:
			}
			for indexing.Load() {
				<-time.After(10 * time.Millisecond)
			}
			return nil, nil
		})
		op := kopf.New(mgr, widgets, kopf.For(&corev1.ConfigMap{}).OnEvent("record", ok[*corev1.ConfigMap](&calls{}, "record")),
			kopf.OnStartup("wait", func(context.Context) error {
				if startup.Load() {
					return kopf.Temporary(errOutOfOrder, 50*time.Millisecond)
				}
				return nil
			}))
		Expect(mgr.Add(op)).To(Succeed())
		launch(mgr, logs)
		ready := func() error { return op.Readyz(nil) }
		Eventually(func() []string { return logs.find(`"handler"="wait"`) }).ShouldNot(BeEmpty())
		Expect(ready()).NotTo(Succeed())
		startup.Store(false)
		Eventually(entered).Should(Receive())
		Consistently(ready, quietTime).ShouldNot(Succeed())
		indexing.Store(false)
		Eventually(ready).Should(Succeed())
	}, SpecTimeout(minute))
})

var _ = Describe("Events and metrics", func() {
	type W = *v1.Widget

	It("are about the object that the handler is called for (SE-28)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		start(ns, options(kopf.For(&v1.Widget{}).OnCreate("created", func(_ context.Context, req *kopf.Request[W]) error {
			req.Eventf("Normal", "Made", "Make", "made in size %d", req.Object.Spec.Size)
			req.Eventf("Warning", "Odd", "Look", "100%% odd")
			req.Sub("sub", func(_ context.Context, req *kopf.Request[W]) error {
				req.Eventf("Normal", "Painted", "Paint", "in %s", req.Object.Spec.Color)
				return nil
			})
			return nil
		})))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(eventsOf(ctx, obj)).Should(ConsistOf(
			"Normal Made Make: made in size 1", "Warning Odd Look: 100% odd", "Normal Painted Paint: in red"))
	}, SpecTimeout(minute))

	It("count attempts by handler and outcome; sub-handlers share a series (B-24)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		start(ns, options(kopf.For(&v1.Widget{}, kopf.WithName("counted")).
			OnCreate("p", func(_ context.Context, req *kopf.Request[W]) error {
				for i := range 3 {
					req.Sub(fmt.Sprint("s", i), failsUntil[W](&calls{}, "s", i%2, kopf.Temporary(errOutOfOrder, 50*time.Millisecond)))
				}
				return nil
			}).
			OnCreate("bad", fails[W](&calls{}, "bad", kopf.Permanent(errOutOfOrder))).
			OnCreate("ignored", fails[W](&calls{}, "ignored", errOutOfOrder), kopf.ErrorMode(progress.ErrorsIgnored)).
			OnReconcile("sync", ok[W](&calls{}, "sync"))))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		attempts := func(handler, outcome string) float64 {
			return metric("kopf_handler_attempts_total", map[string]string{"kind": "counted", "handler": handler, "outcome": outcome})
		}
		Expect(attempts("p", "waiting")).To(BeEquivalentTo(1))
		Expect(attempts("p", "succeeded")).To(BeEquivalentTo(1))
		Expect(attempts("p/*", "succeeded")).To(BeEquivalentTo(3))
		Expect(attempts("p/*", "retried")).To(BeEquivalentTo(1))
		Expect(attempts("bad", "failed")).To(BeEquivalentTo(1))
		Expect(attempts("ignored", "ignored")).To(BeEquivalentTo(1))
		Expect(attempts("sync", "succeeded")).To(BeEquivalentTo(1))
	}, SpecTimeout(minute))
})

var _ = Describe("Probes", func() {
	It("are served beside the operator on request (PROBE-01, PROBE-02)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		mgr := newManager(ns, &logRecorder{})
		op := kopf.New(mgr, kopf.OnProbe("seen", func(context.Context) (any, error) { return len(seen.all()), nil }),
			kopf.For(&v1.Widget{}).OnCreate("created", ok[*v1.Widget](seen, "created")))
		Expect(mgr.Add(op)).To(Succeed())
		launch(mgr, &logRecorder{})
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		server := httptest.NewServer(op.ServeProbes())
		defer server.Close()
		response, err := server.Client().Get(server.URL)
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		Expect(err).NotTo(HaveOccurred())
		Expect(response.StatusCode).To(Equal(http.StatusOK))
		Expect(text).To(MatchJSON(`{"seen": 1}`))
	}, SpecTimeout(minute))
})
