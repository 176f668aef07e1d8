package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("Operators under mixed load", func() {
	type W = *v1.Widget

	// createMany creates objects in parallel.
	createMany := func(ctx context.Context, ns, prefix string, n int) {
		GinkgoHelper()
		failed := make(chan error, n)
		slots := make(chan struct{}, 8)
		for i := range n {
			slots <- struct{}{}
			go func() {
				failed <- k8s.Create(ctx, widget(ns, fmt.Sprint(prefix, i)))
				<-slots
			}()
		}
		for range n {
			Expect(<-failed).To(Succeed())
		}
	}

	It("handle changes of users before retries, and retries before the initial list", func(ctx context.Context) {
		const objects = 200
		ns, seen := newNamespace(ctx), &calls{}
		createMany(ctx, ns, "w", objects)
		entered, release := make(chan struct{}), make(chan struct{})
		var first atomic.Bool
		op := start(ns, options(kopf.For(&v1.Widget{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 1})).
			OnCreate("created", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("%s %d", req.Object.Name, req.Object.Spec.Size)
				if first.CompareAndSwap(false, true) {
					close(entered)
					<-release
					return kopf.Temporary(errOutOfOrder, 0)
				}
				return nil
			})))
		Eventually(entered).Should(BeClosed())
		for i := range 3 {
			create(ctx, widget(ns, fmt.Sprint("new", i)))
		}
		changed := widget(ns, fmt.Sprint("w", objects-1))
		if strings.HasPrefix(seen.all()[0], changed.Name+" ") {
			changed = widget(ns, "w0")
		}
		edit(ctx, changed, func(w W) { w.Spec.Size = 7 })
		Eventually(func() (int, error) {
			err := op.GetCache().Get(ctx, keyOf(changed), changed)
			return changed.Spec.Size, err
		}).Should(Equal(7))
		close(release)
		Eventually(seen.all).Should(HaveLen(objects + 3 + 1))
		all := seen.all()
		again := 1 + slices.Index(all[1:], all[0])
		Expect(again).To(BeNumerically("<", 20), "the retry must not wait for the initial list")
		for _, name := range []string{"new0 1", "new1 1", "new2 1", changed.Name + " 7"} {
			Expect(slices.Index(all, name)).To(BeNumerically("<", 20), "%s must not wait for the initial list", name)
		}
	}, SpecTimeout(minute))

	It("handle the initial list while a client edits one object continuously", func(ctx context.Context) {
		const objects = 20
		ns, seen := newNamespace(ctx), &calls{}
		createMany(ctx, ns, "w", objects)
		busy := widget(ns, "busy")
		create(ctx, busy)
		slow := func(_ context.Context, req *kopf.Request[W]) error {
			seen.notef("%s", req.Object.Name)
			<-time.After(100 * time.Millisecond) // the handler runs longer than the time until the next edit
			return nil
		}
		_, stop := editContinuously(ctx, busy, func(n int64, w *v1.Widget) { w.Spec.Size = 1 + int(n%900) })
		defer stop()
		start(ns, options(kopf.For(&v1.Widget{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 1})).
			OnCreate("created", slow).OnUpdate("updated", slow)))
		Eventually(func() int {
			return len(slices.DeleteFunc(seen.all(), func(name string) bool { return name == "busy" }))
		}).WithTimeout(50 * time.Second).Should(Equal(objects))
		Expect(seen.count("busy")).To(BeNumerically(">", 1), "the edited object must be handled, too")
	}, SpecTimeout(2*minute))

	It("keep the backoff of a failing handler within ten percent while other clients make fifty edits per second (B-11)", func(ctx context.Context) {
		const backoff = 2 * time.Second
		ns, line := newNamespace(ctx), &timeline{}
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("failing", timed(line, fails[W](&calls{}, "failing", errOutOfOrder)), kopf.Backoff(backoff)).
			OnEvent("record", ok[W](&calls{}, "record")).
			OnReconcile("sync", ok[W](&calls{}, "sync"))))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(line.times).Should(HaveLen(1))
		var edits atomic.Int64
		var writers sync.WaitGroup
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for range 4 {
			writers.Go(func() {
				defer GinkgoRecover()
				for len(line.times()) < 6 {
					<-tick.C
					n := edits.Add(1)
					patch := fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}},"spec":{"size":%d}}`, n, n%900)
					Expect(k8s.Patch(ctx, obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
				}
			})
		}
		writers.Wait()
		took := line.times()[5].Sub(line.times()[0])
		rate := float64(edits.Load()) / took.Seconds()
		AddReportEntry("edits per second (fewer on a busy machine), and backoffs", fmt.Sprint(rate, " ", line.gaps()))
		Expect(edits.Load()).To(BeNumerically(">", 5*len(line.gaps())), "without edits between the attempts, this spec shows nothing")
		Expect(line.gaps()).To(HaveEach(atLeast(backoff)))
		gaps := slices.Sorted(slices.Values(line.gaps()))
		Expect(gaps[2]).To(BeNumerically("<", backoff+backoff/10), "the median; single retries may be late on a busy machine")
	}, SpecTimeout(minute))
})
