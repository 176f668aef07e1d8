package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// A client that writes an object that it read earlier restores our annotations, too.
var _ = Describe("A restored old state with all annotations", func() {
	type W = *v1.Widget

	// restore replaces the object with an earlier state.
	restore := func(ctx context.Context, old W) {
		GinkgoHelper()
		Eventually(func() error {
			now, err := fresh(ctx, old)()
			if err != nil {
				return err
			}
			again := old.DeepCopy()
			again.ResourceVersion = now.ResourceVersion
			return k8s.Update(ctx, again)
		}).Should(Succeed())
	}
	record := func(seen *calls) kopf.Handler[W] {
		return func(_ context.Context, req *kopf.Request[W]) error {
			seen.notef("%d→%d #%d", req.Old.Spec.Size, req.Object.Spec.Size, req.Attempt.Number)
			return nil
		}
	}

	It("is handled as an update, and its last-handled configuration is ignored", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		start(ns, options(kopf.For(&v1.Widget{}).OnUpdate("record", record(seen)).OnCreate("made", ok[W](seen, "made"))))
		a := widget(ns, "a")
		create(ctx, a)
		handled(ctx, a)
		old, err := fresh(ctx, a)()
		Expect(err).NotTo(HaveOccurred())
		edit(ctx, a, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(Equal([]string{"made:create", "1→2 #0"}))
		handled(ctx, a)
		for range 3 { // revert and restore the edit
			seen.clear()
			restore(ctx, old)
			Eventually(seen.all).Should(Equal([]string{"2→1 #0"}))
			handled(ctx, a)
			edit(ctx, a, func(w W) { w.Spec.Size = 2 })
			Eventually(seen.all).Should(Equal([]string{"2→1 #0", "1→2 #0"}))
			handled(ctx, a)
		}
	}, SpecTimeout(minute))

	It("does not restore old records", func(ctx context.Context) {
		ns, seen, read := newNamespace(ctx), &calls{}, make(chan struct{})
		fails := failsUntil[W](seen, "fails", 1, kopf.Temporary(nil, 300*millisecond))
		op := start(ns, options(kopf.For(&v1.Widget{}).
			OnUpdate("record", record(seen)).
			OnUpdate("fails", func(ctx context.Context, req *kopf.Request[W]) error {
				if req.Attempt.Number > 0 {
					awaitClosed(ctx, read) // the record remains until the spec has read it
				}
				return fails(ctx, req)
			})))
		a := widget(ns, "a")
		create(ctx, a)
		handled(ctx, a)
		edit(ctx, a, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(ContainElement("fails:update#0"))
		var old W // old is the state during the cycle
		Eventually(func() (ids []string, err error) {
			old, err = fresh(ctx, a)()
			return records(old), err
		}).Should(ContainElement("fails"))
		close(read)
		handled(ctx, a)
		edit(ctx, a, func(w W) { w.Spec.Size = 3 })
		Eventually(fresh(ctx, a)).Should(HaveField("Annotations", And(
			HaveKeyWithValue(baselineKey, ContainSubstring(`"size":3`)), Not(HaveKey(HaveSuffix("/fails"))))))
		seen.clear()
		restore(ctx, old)
		Eventually(seen.all).Should(ConsistOf("3→2 #0", "fails:update#0", "fails:update#1"))
		handled(ctx, a)
		Consistently(seen.all).Should(HaveLen(3))
		Expect(op.log.errors()).To(BeEmpty())
	}, SpecTimeout(minute))
})
