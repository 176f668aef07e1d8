package e2e

import (
	"context"
	"fmt"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("Server-side shards, as processes", func() {
	It("handle each object once at a time, when one of them is suspended during a change of their number", func(ctx context.Context) {
		const objects = 20
		ns := newNamespace(ctx)
		var widgets []*v1.Widget
		for i := range objects {
			widgets = append(widgets, widget(ns, fmt.Sprintf("w%02d", i)))
			create(ctx, widgets[i])
		}
		shards, ends := map[string]*peer{}, map[string]time.Time{}
		launch := func(index, total int) *peer {
			p := launchShard(ns, shardSetup{Ring: ns, Index: index, Total: total, Work: 300 * time.Millisecond})
			shards[fmt.Sprintf("%d of %d", index, total)] = p
			return p
		}
		served := func(size int) {
			GinkgoHelper()
			for _, w := range widgets {
				Eventually(func() (count int) {
					for _, p := range shards {
						count += p.count(fmt.Sprintf("done %s %d", w.Name, size))()
					}
					return count
				}).WithTimeout(time.Minute).WithPolling(100 * millisecond).Should(Equal(1))
			}
		}
		resize := func(size int) {
			GinkgoHelper()
			for _, w := range widgets {
				edit(ctx, w, func(w *v1.Widget) { w.Spec.Size = size })
			}
		}
		old := []*peer{launch(0, 3), launch(1, 3), launch(2, 3)}
		served(1)

		early := launch(1, 2)
		Eventually(early.exited).WithTimeout(time.Minute).Should(BeClosed())
		Expect(early.last("fails").what).To(ContainSubstring("with 3 shards, but this process has 2"))
		Expect(early.count("begin")()).To(BeZero())

		ends["2 of 3"] = time.Now()
		Expect(old[2].Process.Signal(syscall.SIGSTOP)).To(Succeed())
		for _, p := range old[:2] {
			Expect(p.Process.Signal(syscall.SIGTERM)).To(Succeed())
			Eventually(p.exited).WithTimeout(time.Minute).Should(BeClosed())
			Expect(p.count("fails")()).To(BeZero())
		}
		resize(2)
		delete(shards, "1 of 2")
		launch(0, 2)
		launch(1, 2)
		served(2)
		AddReportEntry("all objects are served after SIGSTOP within", time.Since(ends["2 of 3"]).String())

		continued := time.Now()
		Expect(old[2].Process.Signal(syscall.SIGCONT)).To(Succeed())
		Eventually(old[2].exited).WithTimeout(time.Minute).Should(BeClosed(), "a process whose Lease was released must stop")
		Expect(old[2].last("fails").what).To(ContainSubstring("the shard has lost its Lease"))
		for _, one := range old[2].all() {
			if one.at.After(continued) {
				Expect(one.what).NotTo(Or(HavePrefix("begin"), HavePrefix("writes")), "nothing may begin or be written after the suspension")
			}
		}
		resize(3)
		served(3)
		var all []shardAttempt
		for name, p := range shards {
			end, ended := ends[name]
			if !ended {
				end = time.Now()
			}
			all = append(all, attemptsOf(name, p, end)...)
		}
		Expect(overlaps(all)).To(BeEmpty())
	}, SpecTimeout(5*minute))
})
