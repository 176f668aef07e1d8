package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// editContinuously updates the object without pauses until stop is called. It counts successful updates and ignores
// conflicts.
func editContinuously(ctx context.Context, obj *v1.Widget, change func(n int64, w *v1.Widget)) (writes *atomic.Int64, stop func()) {
	writes = &atomic.Int64{}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(ended)
		for ctx.Err() == nil {
			now := &v1.Widget{}
			if err := k8s.Get(ctx, client.ObjectKeyFromObject(obj), now); err != nil {
				Expect(ctx.Err() != nil || apierrors.IsNotFound(err)).To(BeTrue(), err)
				return
			}
			change(writes.Load()+1, now)
			switch err := k8s.Update(ctx, now); {
			case err == nil:
				writes.Add(1)
			case ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err):
				Fail(err.Error())
			}
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	DeferCleanup(stop)
	return writes, stop
}

var _ = Describe("Another client", func() {
	type W = *v1.Widget
	const foreign = "foreign.example.com/keep"

	It("that causes many conflicts does not prevent handler calls or cause error lines", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		var last atomic.Value
		resource := kopf.For(&v1.Widget{}).
			OnCreate("tags", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("tags")
				req.Object.Spec.Tags = []string{"a", "b"} // changes of lists are sent with the resourceVersion
				req.Object.Status.Log = []string{"created"}
				return nil
			}).
			OnCreate("slow", failsUntil[W](seen, "slow", 3, kopf.Temporary(errors.New("not yet"), 100*millisecond))).
			OnCreate("quick", ok[W](seen, "quick")).
			OnUpdate("updated", func(_ context.Context, req *kopf.Request[W]) error {
				last.Store(req.Object.Spec.Color)
				return nil
			}).
			OnDelete("deleted", ok[W](seen, "deleted"))
		operator := start(ns, options(resource))

		obj := widget(ns, "one")
		create(ctx, obj)
		writes, stop := editContinuously(ctx, obj, func(n int64, w *v1.Widget) { w.Spec.Color = fmt.Sprint("color-", n) })
		handled(ctx, obj)
		Eventually(writes.Load).Should(BeNumerically(">", writes.Load()+30), "the edits must continue after the creation")
		stop()

		now, err := fresh(ctx, obj)()
		Expect(err).NotTo(HaveOccurred())
		Expect(now.Spec.Tags).To(Equal([]string{"a", "b"}))
		Expect(now.Status.Log).To(Equal([]string{"created"}))
		Eventually(last.Load).Should(Equal(now.Spec.Color), "the last call of the update handler must receive the last state")

		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(ConsistOf("tags", "quick:create", "deleted:delete",
			"slow:create#0", "slow:create#1", "slow:create#2", "slow:create#3"))
		Expect(operator.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))

	It("keeps its finalizer while the engine adds and removes its own (FIN-14)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		operator := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("created", ok[W](seen, "created")).
			OnDelete("deleted", ok[W](seen, "deleted"))))

		obj := widget(ns, "one")
		create(ctx, obj)
		// The other client continuously adds and removes finalizers but keeps one.
		writes, stop := editContinuously(ctx, obj, func(n int64, w *v1.Widget) {
			if w.DeletionTimestamp != nil {
				w.Labels = map[string]string{"n": fmt.Sprint(n)} // the object is being deleted, so finalizers cannot be added
				return
			}
			w.Finalizers = slices.DeleteFunc(w.Finalizers, func(f string) bool { return f == foreign || f == foreign+"-other" })
			w.Finalizers = append(w.Finalizers, foreign)
			if n%2 == 0 {
				w.Finalizers = append(w.Finalizers, foreign+"-other")
			}
		})
		Eventually(seen.all).Should(Equal([]string{"created:create"}))
		Eventually(writes.Load).Should(BeNumerically(">", 0))
		read := fresh(ctx, obj)
		Expect(read()).To(HaveField("Finalizers", ContainElements(kopf.DefaultFinalizer, foreign)))

		remove(ctx, obj)
		Eventually(seen.all).Should(Equal([]string{"created:create", "deleted:delete"}))
		Eventually(func() []string { w, _ := read(); return w.Finalizers }).
			Should(And(ContainElement(foreign), Not(ContainElement(kopf.DefaultFinalizer))))
		stop()
		edit(ctx, obj, func(w W) { w.Finalizers = nil })
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(HaveLen(2))
		Expect(operator.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))

	It("keeps its change to a list that a handler also changes (SE-23)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		operator := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("tags", func(ctx context.Context, req *kopf.Request[W]) error {
				seen.notef("tags#%d", req.Attempt.Number)
				if seen.count("tags#0") == 1 { // a concurrent edit during the first attempt
					foreign := &v1.Widget{}
					must(k8s.Get(ctx, client.ObjectKeyFromObject(req.Object), foreign))
					foreign.Spec.Tags = append(foreign.Spec.Tags, "theirs")
					must(k8s.Update(ctx, foreign))
				}
				req.Object.Spec.Tags = append(req.Object.Spec.Tags, "ours")
				return nil
			}).
			OnCreate("other", ok[W](seen, "other")), kopf.WithCheckpoint(time.Hour))) // the requests of the first handler must not cause a write before the second one

		obj := widget(ns, "one")
		create(ctx, obj)
		handled(ctx, obj)
		Expect(fresh(ctx, obj)()).To(HaveField("Spec.Tags", Equal([]string{"theirs", "ours"})))
		Expect(seen.all()).To(Equal([]string{"tags#0", "other:create", "tags#0"}),
			"the handler with the conflict must be called again with the same attempt number")
		Expect(operator.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))
})
