package e2e

import (
	"context"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// A cache with a label selector removes objects that lose the label. The cache may contain them again before a worker reconciles the removal.
var _ = Describe("Objects that are missing in the cache for a short time", func() {
	It("have their daemons started again (DAE-09)", func(ctx context.Context) {
		ns, seen, logs := newNamespace(ctx), &calls{}, &logRecorder{}
		gold := map[string]string{"tier": "gold"}
		mgr, err := manager.New(cp.Config, manager.Options{
			Scheme: scheme, Logger: logs.Logger(), Metrics: server.Options{BindAddress: "0"},
			Cache: cache.Options{
				DefaultNamespaces: map[string]cache.Config{ns: {}},
				ByObject:          map[client.Object]cache.ByObject{&v1.Widget{}: {Label: labels.SelectorFromSet(gold)}},
			},
		})
		Expect(err).NotTo(HaveOccurred())
		release := make(chan struct{})
		releaseWorker := sync.OnceFunc(func() { close(release) })
		DeferCleanup(releaseWorker)
		Expect(kopf.SetupWithManager(mgr, kopf.For(&v1.Widget{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 1})).
			Daemon("watch", daemons.Daemon{}, stays[*v1.Widget](seen, "daemon"), kopf.Label("busy", filter.Absent)).
			OnCreate("busy", func(context.Context, *kopf.Request[*v1.Widget]) error {
				seen.notef("busy")
				<-release
				return nil
			}, kopf.Label("busy", filter.Present)))).To(Succeed())
		launch(mgr, logs)
		obj := widget(ns, "one")
		obj.Labels = gold
		create(ctx, obj)
		Eventually(seen.all).Should(Equal([]string{"daemon begins for one"}))

		busy := widget(ns, "busy")
		busy.Labels = map[string]string{"tier": "gold", "busy": "yes"}
		create(ctx, busy)
		Eventually(seen.all).Should(ContainElement("busy"))
		cached := func() error { return mgr.GetCache().Get(ctx, client.ObjectKeyFromObject(obj), &v1.Widget{}) }
		edit(ctx, obj, func(w *v1.Widget) { w.Labels = nil })
		Eventually(cached).ShouldNot(Succeed())
		edit(ctx, obj, func(w *v1.Widget) { w.Labels = gold })
		Eventually(cached).Should(Succeed())
		releaseWorker()
		Eventually(seen.all).Should(HaveLen(4), "the daemon must start again")
	}, SpecTimeout(minute))
})
