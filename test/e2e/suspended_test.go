package e2e

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("A leader that was suspended past its lease", func() {
	const objects = 10

	It("writes nothing when it continues, and the next leader finishes its handlers", func(ctx context.Context) {
		ns := newNamespace(ctx)
		widgets := make([]*v1.Widget, objects)
		for i := range widgets {
			widgets[i] = widget(ns, fmt.Sprint("w", i))
			create(ctx, widgets[i])
		}
		setup := peerSetup{Peers: peering.Options{Standalone: true}, Lease: "replicas", Short: true, Work: time.Second}
		old := launchPeer(ns, setup)
		Eventually(old.count("done w")).Should(Equal(objects))
		for _, w := range widgets {
			handled(ctx, w)
		}
		next := launchPeer(ns, setup)
		Eventually(next.count("starts")).Should(Equal(1))

		resize := func(size int) {
			for _, w := range widgets {
				edit(ctx, w, func(w *v1.Widget) { w.Spec.Size = size })
			}
		}
		resize(2)
		Eventually(old.count("begins w")).Should(BeNumerically(">", objects))
		Expect(old.Process.Signal(syscall.SIGSTOP)).To(Succeed())
		served := func(size int) func() int {
			return func() (n int) {
				for i := range widgets {
					n += next.count(fmt.Sprintf("done w%d %d", i, size))()
				}
				return n
			}
		}
		Eventually(served(2)).WithTimeout(time.Minute).Should(BeNumerically(">", 0))
		resize(3)
		Eventually(served(3)).WithTimeout(time.Minute).Should(Equal(objects))
		for _, w := range widgets {
			handled(ctx, w)
		}

		continued := time.Now()
		Expect(old.Process.Signal(syscall.SIGCONT)).To(Succeed())
		Eventually(old.exited).WithTimeout(time.Minute).Should(BeClosed(), "the manager must stop after it has lost the lease")
		var late []string
		for _, one := range old.all() {
			if one.at.After(continued) && strings.HasPrefix(one.what, "writes") {
				late = append(late, one.what)
			}
		}
		Expect(late).To(BeEmpty())
		for _, w := range widgets {
			handled(ctx, w)
			Expect(fresh(ctx, w)()).To(HaveField("Annotations", HaveKeyWithValue(baselineKey, ContainSubstring(`"size":3`))))
		}
	}, SpecTimeout(3*minute))
})
