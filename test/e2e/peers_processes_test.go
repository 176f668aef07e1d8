package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	peeringv1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("Operators among peers, as processes", func() {
	type W = *v1.Widget
	var ns string
	var w W

	// begin starts an operator. Operators that share a lease are replicas.
	begin := func(identity string, priority int, change ...func(*peerSetup)) *peer {
		GinkgoHelper()
		setup := peerSetup{Peers: peering.Options{Identity: identity, Priority: priority, Namespaces: []string{ns}, Mandatory: true}}
		for _, do := range change {
			do(&setup)
		}
		return launchPeer(ns, setup)
	}
	replica := func(release bool) func(*peerSetup) {
		return func(s *peerSetup) { s.Lease, s.Release = "replicas", release }
	}
	resize := func(ctx context.Context, size int) {
		GinkgoHelper()
		edit(ctx, w, func(w W) { w.Spec.Size = size })
	}
	// terminate sends SIGTERM to the process and waits until it exits.
	terminate := func(p *peer) {
		GinkgoHelper()
		Expect(p.Process.Signal(syscall.SIGTERM)).To(Succeed())
		Eventually(p.exited).Should(BeClosed())
	}
	identities := func(ctx context.Context) func() []string {
		return func() []string {
			var object peeringv1.KopfPeering
			Expect(k8s.Get(ctx, client.ObjectKey{Namespace: ns, Name: "default"}, &object)).To(Succeed())
			return slices.Sorted(maps.Keys(object.Status))
		}
	}

	BeforeEach(func(ctx context.Context) {
		ns = newNamespace(ctx)
		newLaptop(ctx, ns)
		w = widget(ns, "w")
		create(ctx, w)
	})

	It("pause for a higher priority; resume within its lifetime after SIGKILL, and immediately after SIGTERM (PEER-21, PEER-31, PEER-32, PEER-34, PEER-51, PEER-53)", func(ctx context.Context) {
		low := begin("low", 0)
		Eventually(low.count("done w 1")).Should(Equal(1))
		Eventually(low.count("begins daemon")).Should(Equal(1))

		high := begin("high", 1, func(s *peerSetup) { s.Peers.Lifetime = 4 * time.Second })
		Eventually(high.count("resumes w")).Should(Equal(1))
		Eventually(low.state).Should(ContainSubstring(`"high" (priority 1) has precedence`))
		Eventually(low.count("ends daemon")).Should(Equal(1))
		resize(ctx, 2)
		Eventually(high.count("done w 2")).Should(Equal(1))
		handled(ctx, w)

		killed := time.Now()
		Expect(high.Process.Kill()).To(Succeed())
		resize(ctx, 3)
		Eventually(low.count("done w 3")).Should(Equal(1))
		gap := low.last("works: ").at.Sub(killed)
		AddReportEntry("resumed after SIGKILL", gap.String())
		Expect(gap).To(And(BeNumerically(">", 2*time.Second), BeNumerically("<", 6*time.Second)))
		Eventually(low.count("begins daemon")).Should(Equal(2))
		Eventually(identities(ctx)).Should(Equal([]string{"low"}))

		dev := begin("dev", peering.DevPriority)
		Eventually(dev.count("begins daemon")).Should(Equal(1))
		Eventually(low.count("ends daemon")).Should(Equal(2))
		terminated := time.Now()
		terminate(dev)
		exit := time.Since(terminated)
		Eventually(low.count("begins daemon")).Should(Equal(3))
		release := low.last("works: ").at.Sub(terminated)
		AddReportEntry("after SIGTERM", fmt.Sprintf("exit %s, release %s", exit, release))
		const prompt = 10 * time.Second // much less than the lifetime of the record, which is a minute; test/peering measures shorter times, repeatedly
		Expect(exit).To(BeNumerically("<", prompt))
		Expect(release).To(BeNumerically("<", prompt))
		Expect(low.count("done w")()).To(Equal(2), "low must handle only the first and the third size; high handles the second")
		Expect(low.count("resumes")()).To(BeZero())
	}, SpecTimeout(minute))

	It("can both handle an object for a short time, because peering uses no locks; both handlers finish (PEER-55)", func(ctx context.Context) {
		works := func(duration time.Duration) func(*peerSetup) { return func(s *peerSetup) { s.Work = duration } }
		low := begin("low", 0, works(10*time.Second)) // the handler runs until after the start of the other operator
		Eventually(low.count("begins w")).Should(Equal(1))
		high := begin("high", 1, works(time.Second))
		Eventually(high.count("begins w")).Should(Equal(1))
		Eventually(high.count("done w 1")).Should(Equal(1))
		Eventually(low.count("done w 1")).Should(Equal(1))
		Expect(low.last("done").at).To(BeTemporally(">", low.last("paused").at), "the pause must not interrupt the handler")
		Expect(low.last("done").at).To(BeTemporally(">", high.last("begins w").at), "both handlers must run at the same time")
		handled(ctx, w)
		Consistently(low.count("begins w")).Should(Equal(1))
		Expect(high.count("begins w")()).To(Equal(1))
	}, SpecTimeout(minute))

	It("elect a leader among replicas; a standby replica has no peering record, and the leader pauses for a developer's operator (MIG-09)", func(ctx context.Context) {
		one := begin("one", 0, replica(true))
		Eventually(one.count("done w 1")).Should(Equal(1))
		two := begin("two", 0, replica(true))
		Eventually(two.count("starts")).Should(Equal(1))
		Consistently(two.all).Should(HaveLen(1), "the standby replica must call no handler")
		Expect(identities(ctx)()).To(Equal([]string{"one"}))

		dev := begin("dev", peering.DevPriority)
		Eventually(one.state).Should(ContainSubstring("dev"))
		resize(ctx, 2)
		Eventually(dev.count("done w 2")).Should(Equal(1))
		Expect(identities(ctx)()).To(Equal([]string{"dev", "one"}))

		terminate(one)
		Eventually(two.state).Should(And(HavePrefix("paused"), ContainSubstring("dev")), "the next leader must pause, too")
		Expect(identities(ctx)()).To(Equal([]string{"dev", "two"}))
		resize(ctx, 3)
		Eventually(dev.count("done w 3")).Should(Equal(1))

		terminate(dev)
		resize(ctx, 4)
		Eventually(two.count("done w 4")).Should(Equal(1))
		Expect(two.count("done w")()).To(Equal(1))
		Expect(identities(ctx)()).To(Equal([]string{"two"}))
	}, SpecTimeout(minute))

	DescribeTable("with two replicas support a rolling update; the lease duration limits the gap in service",
		func(ctx context.Context, release bool, most time.Duration) {
			all := []*peer{begin("old-0", 0, replica(release))}
			Eventually(all[0].count("done w 1")).Should(Equal(1))
			all = append(all, begin("old-1", 0, replica(release)))
			Eventually(all[1].count("starts")).Should(Equal(1))

			stop, last := keepEditing(ctx, []W{w}, 100*time.Millisecond)
			served := func() (done []time.Time) { // returns the sorted times of all replicas
				for _, p := range all {
					for _, one := range p.all() {
						if strings.HasPrefix(one.what, "done") {
							done = append(done, one.at)
						}
					}
				}
				slices.SortFunc(done, time.Time.Compare)
				return done
			}
			awaitServed := func() { // wait for more edits than can be in progress
				GinkgoHelper()
				n := len(served())
				Eventually(served).WithTimeout(time.Minute).Should(WithTransform(func(done []time.Time) int { return len(done) }, BeNumerically(">=", n+5)))
			}
			awaitServed()
			for i := range 2 {
				all = append(all, begin(fmt.Sprint("new-", i), 0, replica(release)))
				Eventually(all[2+i].count("starts")).Should(Equal(1))
				terminate(all[i])
				awaitServed()
			}
			stop()
			Eventually(func() []string { return []string{all[2].last("done").what, all[3].last("done").what} }).Should(ContainElement(last(w)))
			var gap time.Duration
			for i, done := range served()[1:] {
				gap = max(gap, done.Sub(served()[i]))
			}
			AddReportEntry("the longest time without service", gap.String())
			Expect(gap).To(And(BeNumerically(">", 200*time.Millisecond), BeNumerically("<", most)), "the gap must be longer than the interval of the edits")
			Eventually(identities(ctx)).Should(ConsistOf(HavePrefix("new-")))
		},
		// The standby replica requests the lease every 2 to 4.4 seconds.
		Entry("with LeaderElectionReleaseOnCancel", true, 7*time.Second, SpecTimeout(2*minute)),
		// The standby replica must observe an unchanged lease for 15 seconds.
		Entry("with the defaults of the manager", false, 26*time.Second, SpecTimeout(3*minute)),
	)
})

// keepEditing edits the objects continuously until stop is called. last returns the expected output for the last edit of
// an object.
func keepEditing(ctx context.Context, widgets []*v1.Widget, pause time.Duration) (stop func(), last func(*v1.Widget) string) {
	ctx, cancel := context.WithCancel(ctx)
	sizes, done := make([]int, len(widgets)), make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		for n := 0; wait(ctx, pause); n++ {
			i := n % len(widgets)
			size := 2 + n%999 // the maximum size in the schema
			patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"size":%d}}`, size))
			Expect(k8s.Patch(context.WithoutCancel(ctx), widgets[i].DeepCopy(), patch)).To(Succeed())
			sizes[i] = size
		}
	}()
	stop = func() { cancel(); <-done }
	DeferCleanup(stop)
	return stop, func(w *v1.Widget) string {
		return fmt.Sprintf("done %s %d", w.Name, sizes[slices.Index(widgets, w)])
	}
}
