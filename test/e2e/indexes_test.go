package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// values returns the sorted values of an index for a key.
func values(index *kopf.Index[string, int], key string) func() []int {
	return func() []int {
		all := index.Get(key)
		slices.Sort(all)
		return all
	}
}

var _ = Describe("Indexes", func() {
	type W = *v1.Widget

	byColor := func(_ context.Context, req *kopf.Request[W]) (map[string]int, error) {
		return map[string]int{req.Object.Spec.Color: req.Object.Spec.Size}, nil
	}

	It("are complete before the first handler of any kind is called, for any number of objects (PIPE-05, IDX-14, IDX-15, IDX-23, SE-43)", func(ctx context.Context) {
		const objects = 50
		ns, seen := newNamespace(ctx), &calls{}
		for i := range objects {
			create(ctx, widget(ns, fmt.Sprint("w", i)))
		}
		create(ctx, ownedMap(ns, "map", nil))
		widgets := kopf.For(&v1.Widget{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 1}))
		maps := kopf.For(&corev1.ConfigMap{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 1}))
		index := kopf.IndexBy(widgets, "colors", func(ctx context.Context, req *kopf.Request[W]) (map[string]int, error) {
			<-time.After(10 * time.Millisecond)
			return byColor(ctx, req)
		})
		Expect(index.Len()).To(BeZero(), "IDX-01: the index must be empty before the start")
		complete := func(kind string) { seen.notef("%s %d", kind, len(index.Get("red"))) }
		start(ns, options(widgets.
			OnCreate("created", func(context.Context, *kopf.Request[W]) error { complete("widget"); return nil }).
			OnEvent("record", func(context.Context, *kopf.Request[W]) error { complete("record"); return nil }),
			maps.OnReconcile("sync", func(context.Context, *kopf.Request[*corev1.ConfigMap]) error { complete("map"); return nil }),
			kopf.OnStartup("early", func(context.Context) error {
				seen.notef("startup %d", len(index.Get("red")))
				return nil
			})))
		Eventually(seen.count).WithArguments(fmt.Sprint("widget ", objects)).Should(Equal(objects))
		all := seen.all()
		Expect(all[0]).To(Equal("startup 0"), "IDX-01 IDX-17: the index must be empty during the startup")
		Expect(all[1:]).To(HaveEach(HaveSuffix(fmt.Sprint(" ", objects))))
		Eventually(seen.count).WithArguments(fmt.Sprint("map ", objects)).Should(BeNumerically(">=", 1))
	}, SpecTimeout(minute))

	It("follow objects that are changed, filtered out or deleted; a blocked deletion does not change them (IDX-05, IDX-11, IDX-12, IDX-13)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		widgets := kopf.For(&v1.Widget{})
		index := kopf.IndexBy(widgets, "colors", byColor, kopf.Label("on"))
		wire := &writeRecorder{}
		start(ns, options(widgets), wire.setup())
		one, two := widget(ns, "one"), widget(ns, "two")
		for size, obj := range map[int]W{1: one, 2: two} {
			obj.Labels, obj.Spec.Size = map[string]string{"on": ""}, size
			create(ctx, obj)
		}
		Eventually(values(index, "red")).Should(Equal([]int{1, 2}))
		edit(ctx, one, func(w W) { w.Spec.Size = 3 })
		Eventually(values(index, "red")).Should(Equal([]int{2, 3}))
		edit(ctx, one, func(w W) { w.Spec.Color = "blue" })
		Eventually(values(index, "blue")).Should(Equal([]int{3}))
		Expect(values(index, "red")()).To(Equal([]int{2}))
		edit(ctx, one, func(w W) { w.Labels = nil })
		Eventually(index.Has).WithArguments("blue").Should(BeFalse(), "IDX-02 IDX-11: the index must not contain an unmatched object")
		Expect(index.Len()).To(Equal(1))
		edit(ctx, two, func(w W) { w.Finalizers = []string{foreignFinalizer} })
		remove(ctx, two)
		Consistently(values(index, "red"), quietTime).Should(Equal([]int{2}), "IDX-12: the index must contain an object in deletion")
		edit(ctx, two, func(w W) { w.Finalizers = nil })
		Eventually(index.Len).Should(BeZero())
		Expect(wire.all()).To(BeEmpty(), "indexes must not cause writes")
	}, SpecTimeout(minute))

	It("remove replaced objects, and objects whose deletion the watch has missed (IDX-21, SE-08, B-04, B-06)", func(ctx context.Context) {
		ns, line := newNamespace(ctx), &watchBreaker{}
		widgets := kopf.For(&v1.Widget{})
		index := kopf.IndexBy(widgets, "colors", byColor)
		start(ns, options(widgets), line.setup())
		gone, replaced := widget(ns, "gone"), widget(ns, "replaced")
		create(ctx, gone)
		create(ctx, replaced)
		Eventually(values(index, "red")).Should(Equal([]int{1, 1}))
		line.cut()
		remove(ctx, gone)
		remove(ctx, replaced)
		replaced = widget(ns, "replaced")
		replaced.Spec.Size = 7
		create(ctx, replaced)
		line.restoreWithLoss()
		Eventually(values(index, "red")).Should(Equal([]int{7}))
		Consistently(values(index, "red"), quietTime).Should(Equal([]int{7}))
	}, SpecTimeout(minute))

	It("are empty at the start of each process and operator (IDX-01, IDX-21)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		widgets := kopf.For(&v1.Widget{})
		index := kopf.IndexBy(widgets, "colors", byColor)
		obj, other := widget(ns, "one"), widget(ns, "other")
		create(ctx, obj)
		create(ctx, other)
		first := start(ns, options(widgets))
		Eventually(values(index, "red")).Should(Equal([]int{1, 1}))
		first.stop()
		remove(ctx, obj)
		working(start(ns, options(widgets)))
		Eventually(values(index, "red")).Should(Equal([]int{1}), "the index must not contain objects deleted during the downtime")
	}, SpecTimeout(minute))

	It("handle errors according to the error mode (IDX-03, IDX-06, IDX-07, IDX-08, IDX-09, IDX-10, IDX-11)", func(ctx context.Context) {
		const delay = 4 * time.Second // longer than the time for the edits
		ns, seen := newNamespace(ctx), &calls{}
		widgets := kopf.For(&v1.Widget{})
		var failing atomic.Bool
		indexes := map[string]*kopf.Index[string, int]{}
		index := func(id string, err error, opts ...kopf.HandlerOption) {
			indexes[id] = kopf.IndexBy(widgets, id, func(ctx context.Context, req *kopf.Request[W]) (map[string]int, error) {
				seen.notef("%s", id)
				if !failing.Load() {
					return byColor(ctx, req)
				}
				if err == nil && strings.HasPrefix(id, "nil") {
					return nil, nil
				}
				return map[string]int{}, err
			}, opts...)
		}
		index("nil", nil)
		index("empty", nil)
		index("unknown", errOutOfOrder)
		index("strict", errOutOfOrder, kopf.ErrorMode(progress.ErrorsPermanent))
		index("permanent", kopf.Permanent(errOutOfOrder))
		index("temporary", kopf.Temporary(errOutOfOrder, delay))
		index("mode", errOutOfOrder, kopf.ErrorMode(progress.ErrorsTemporary), kopf.Backoff(delay))
		index("limited", kopf.Temporary(errOutOfOrder, 0), kopf.Retries(2))
		index("filtered", kopf.Permanent(errOutOfOrder), kopf.Label("on"))
		op := start(ns, options(widgets))
		obj := widget(ns, "one")
		obj.Labels = map[string]string{"on": ""}
		create(ctx, obj)
		for id := range indexes {
			Eventually(values(indexes[id], "red")).Should(Equal([]int{1}), id)
		}
		size := 1
		change := func(also func(W)) {
			GinkgoHelper()
			before := seen.count("nil")
			edit(ctx, obj, func(w W) {
				size++
				w.Spec.Size = size
				if also != nil {
					also(w)
				}
			})
			Eventually(seen.count).WithArguments("nil").Should(BeNumerically(">", before))
			Eventually(func() int { return seen.count("empty") }).Should(Equal(seen.count("nil")))
		}
		failing.Store(true)
		change(nil)
		failed := time.Now()
		for id, want := range map[string][]int{"nil": {1}, "unknown": {1}} {
			Consistently(values(indexes[id], "red"), quietTime/3).Should(Equal(want), id)
		}
		for _, id := range []string{"empty", "strict", "permanent", "temporary", "mode", "limited", "filtered"} {
			Eventually(indexes[id].Len).Should(BeZero(), id)
		}
		Expect(op.log.find(`"handler"="unknown"`, errOutOfOrder.Error())).To(HaveLen(1), "IDX-07: the operator must log the error once")
		change(nil) // the second and last attempt of the limited handler
		Eventually(func() []string { return op.log.find(`"handler"="limited"`, "failed permanently") }).Should(HaveLen(1))
		failing.Store(false)
		change(func(w W) { w.Labels = nil })
		if time.Since(failed) < delay-time.Second {
			for _, id := range []string{"temporary", "mode"} {
				Expect(seen.count(id)).To(Equal(2), "IDX-09: %s must not be called before its delay has ended", id)
			}
		}
		Eventually(func() bool { return time.Since(failed) > delay+time.Second }).Should(BeTrue())
		Expect(indexes["temporary"].Len()).To(BeZero(), "IDX-09: the end of the delay must not requeue the object")
		change(func(w W) { w.Labels = map[string]string{"on": ""} })
		for _, id := range []string{"nil", "empty", "unknown", "temporary", "mode"} {
			Eventually(values(indexes[id], "red")).Should(Equal([]int{size}), id)
		}
		Expect(seen.count("strict")).To(Equal(2), "IDX-08: the handler must not be called again for this object")
		Expect(seen.count("permanent")).To(Equal(2), "IDX-08: the handler must not be called again for this object")
		Expect(seen.count("limited")).To(Equal(3), "IDX-09: two of the attempts must fail")
		Expect(seen.count("filtered")).To(Equal(2), "IDX-08: the handler must not be called again for this object")
		for _, id := range []string{"strict", "permanent", "limited", "filtered"} {
			Expect(indexes[id].Len()).To(BeZero(), id)
		}
	}, SpecTimeout(minute))

	It("are not changed by panics of their function (IDX-22, B-23)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		widgets := kopf.For(&v1.Widget{})
		index := kopf.IndexBy(widgets, "colors", func(ctx context.Context, req *kopf.Request[W]) (map[string]int, error) {
			req.Object.Labels = map[string]string{"indexed": ""}
			return byColor(ctx, req)
		})
		kopf.IndexBy(widgets, "panics", func(context.Context, *kopf.Request[W]) (map[string]int, error) {
			panic(errors.New("oh"))
		})
		start(ns, options(widgets.OnCreate("created", ok[W](seen, "created"))))
		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(values(index, "red")()).To(Equal([]int{1}))
		Expect(fresh(ctx, obj)()).To(HaveField("Labels", BeEmpty()))
	}, SpecTimeout(minute))
})
