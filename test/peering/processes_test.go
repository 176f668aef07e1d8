package peering

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	v1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
)

// The child process is this test binary with these variables: an operator that can be killed.
const (
	childEnv   = "KOPF_PEERING_CHILD"       // its options, as JSON
	childLease = "KOPF_PEERING_CHILD_LEASE" // the name of its lease, if it has one
	childHaste = "KOPF_PEERING_CHILD_HASTE" // if it is set, the lease is a short one
)

// A short lease: a third of the default, and a quarter of the default between two looks at it.
const (
	shortLease, shortRenewal = 5 * time.Second, 4 * time.Second
	shortRetry               = 500 * time.Millisecond
	shortLifetime            = 8 * time.Second
)

// slack is what a look and a write may take on a busy machine, beyond what is a matter of lifetimes and leases.
const slack = 2 * time.Second

func child() int {
	log.SetLogger(logr.Discard())
	var options peering.Options
	must(json.Unmarshal([]byte(os.Getenv(childEnv)), &options))
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	lease := os.Getenv(childLease)
	managed := manager.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		LeaderElection: lease != "", LeaderElectionID: lease, LeaderElectionNamespace: "default", LeaderElectionReleaseOnCancel: true,
	}
	if os.Getenv(childHaste) != "" {
		managed.LeaseDuration, managed.RenewDeadline, managed.RetryPeriod = new(shortLease), new(shortRenewal), new(shortRetry)
	}
	mgr, err := manager.New(config, managed)
	must(err)
	p, err := peering.New(mgr, options)
	must(err)
	must(mgr.Add(p))
	go func() {
		for last := ""; ; <-time.After(5 * time.Millisecond) {
			if now := p.Describe(); now != last {
				fmt.Println(strings.ReplaceAll(now, "\n", "; ")) // there is one line for each namespace
				last = now
			}
		}
	}()
	must(mgr.Start(ctrl.SetupSignalHandler()))
	return 0
}

// A process is an operator of its own.
type process struct {
	*exec.Cmd
	exited chan struct{}

	mu   sync.Mutex
	last string    // what it said
	when time.Time // it said so
}

func launch(options peering.Options, env ...string) *process {
	GinkgoHelper()
	kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(cp.WriteKubeconfig(kubeconfig)).To(Succeed())
	text, err := json.Marshal(options)
	Expect(err).NotTo(HaveOccurred())
	p := &process{Cmd: exec.Command(os.Args[0]), exited: make(chan struct{})}
	p.Env = append(os.Environ(), append(env, childEnv+"="+string(text), "KUBECONFIG="+kubeconfig)...)
	p.Stderr = GinkgoWriter
	out, err := p.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(p.Start()).To(Succeed())
	go func() {
		defer close(p.exited)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.mu.Lock()
			p.last, p.when = lines.Text(), time.Now()
			p.mu.Unlock()
		}
		_ = p.Wait()
	}()
	DeferCleanup(func() {
		_ = p.Process.Kill() // it may have gone
		<-p.exited
	})
	return p
}

func (p *process) is() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

func (p *process) since() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.when
}

var _ = Describe("Processes", func() {
	It("pause for a higher one, and go on when it has left (PEER-21, PEER-32)", func(ctx context.Context) {
		at := cluster(ctx)
		low := launch(peering.Options{Name: at.name, Identity: "low"})
		Eventually(low.is).Should(HavePrefix("works"))
		const prompt = 2 * time.Second
		exit, release := prompt, prompt
		for range 3 { // on a busy machine a process may be kept waiting for so long
			dev := launch(peering.Options{Name: at.name, Identity: "dev", Priority: peering.DevPriority})
			Eventually(dev.is).Should(HavePrefix("works"))
			Eventually(low.is).Should(pausedBecause(`"dev" (priority 666)`))

			before := time.Now()
			Expect(dev.Process.Signal(syscall.SIGTERM)).To(Succeed())
			Eventually(dev.exited).Should(BeClosed())
			exit = time.Since(before)
			Eventually(low.is).Should(HavePrefix("works"))
			if release = low.since().Sub(before); exit < prompt && release < prompt {
				break
			}
		}
		Expect(exit).To(BeNumerically("<", prompt), "the exit")
		Expect(release).To(BeNumerically("<", prompt), "the release")
		Expect(at.identities(ctx)).To(Equal([]string{"low"}))
	}, SpecTimeout(patience))

	It("go on within the lifetime of one that was killed (PEER-31, PEER-34)", func(ctx context.Context) {
		at := cluster(ctx)
		low := launch(peering.Options{Name: at.name, Identity: "low"})
		Eventually(low.is).Should(HavePrefix("works"))
		high := launch(peering.Options{Name: at.name, Identity: "high", Priority: 1, Lifetime: shortLifetime})
		Eventually(low.is).Should(HavePrefix("paused"))
		Eventually(high.is).Should(HavePrefix("works"))
		before := time.Now()
		Expect(high.Process.Kill()).To(Succeed())
		Eventually(low.is).Should(HavePrefix("works"))
		gap := low.since().Sub(before)
		AddReportEntry("released after", gap.String())
		Expect(gap).To(And(BeNumerically(">", shortLifetime-4*time.Second), BeNumerically("<", shortLifetime+slack)))
		Eventually(func() []string { return at.identities(ctx) }).Should(Equal([]string{"low"}), "PEER-31")
	}, SpecTimeout(patience))

	It("follow each other in a chain of three, whether the first one leaves or is killed (PEER-30, PEER-31, PEER-32)", func(ctx context.Context) {
		at := cluster(ctx)
		begin := func(i int) *process {
			return launch(peering.Options{Name: at.name, Identity: fmt.Sprint("p", i), Priority: i, Lifetime: shortLifetime})
		}
		all := []*process{begin(0), begin(1), begin(2)}
		Eventually(all[0].is).Should(isPaused())
		Eventually(all[1].is).Should(pausedBecause(`"p2" (priority 2) has`))
		Eventually(all[2].is).Should(HavePrefix("works"))
		before := time.Now()
		Expect(all[2].Process.Kill()).To(Succeed())
		Eventually(all[1].is).Should(HavePrefix("works"))
		Expect(all[1].since().Sub(before)).To(BeNumerically("<", shortLifetime+slack))
		Eventually(all[0].is).Should(pausedBecause(`"p1" (priority 1) has`))
		Expect(all[1].Process.Signal(syscall.SIGTERM)).To(Succeed())
		Eventually(all[0].is).Should(HavePrefix("works"))
		Eventually(func() []string { return at.identities(ctx) }).Should(Equal([]string{"p0"}))
	}, SpecTimeout(patience))

	It("are paused in the namespaces alone where there is a conflict, and leave records as they are that they do not understand (PEER-06, PEER-33)", func(ctx context.Context) {
		one, two, name := newNamespace(ctx), newNamespace(ctx), unique()
		at := where{v1.Group, one, name}.create(ctx)
		where{v1.Group, two, name}.create(ctx)
		at.patch(ctx, `{"status": {"text": "x", "list": [1, {"a": null}], "bad": {"priority": "high"}}}`)
		strange, err := json.Marshal(at.status(ctx))
		Expect(err).NotTo(HaveOccurred())
		low := launch(peering.Options{Name: name, Identity: "low", Namespaces: []string{one, two}, Mandatory: true})
		Eventually(low.is).Should(MatchRegexp("namespace %s: works: .*; namespace %s: works: ", one, two))
		high := launch(peering.Options{Name: name, Identity: "high", Priority: 1, Namespaces: []string{one}, Mandatory: true})
		Eventually(low.is).Should(MatchRegexp(`namespace %s: paused: "high" \(priority 1\) has .*; namespace %s: works: `, one, two))
		Eventually(high.is).Should(HavePrefix("namespace " + one + ": works"))
		for _, p := range []*process{high, low} {
			Expect(p.Process.Signal(syscall.SIGTERM)).To(Succeed())
			Eventually(p.exited).Should(BeClosed())
		}
		Expect(json.Marshal(at.status(ctx))).To(MatchJSON(strange))
	}, SpecTimeout(patience))

	It("all pause if they are equal, and say so (PEER-35)", func(ctx context.Context) {
		at := cluster(ctx)
		var all []*process
		for i := range 3 {
			all = append(all, launch(peering.Options{Name: at.name, Identity: fmt.Sprint("p", i), Lifetime: 6 * time.Second}))
		}
		for _, p := range all {
			Eventually(p.is).Should(pausedBecause("the same priority as we have, so all of us pause"))
		}
		Consistently(func() (all3 []bool) {
			for _, p := range all {
				all3 = append(all3, strings.HasPrefix(p.is(), "paused"))
			}
			return all3
		}).WithTimeout(8 * time.Second).Should(HaveEach(true)) // longer than a lifetime
	}, SpecTimeout(patience))

	It("are replaced with a gap that is bounded, if they elect a leader", func(ctx context.Context) {
		at := cluster(ctx)
		lease := childLease + "=" + at.name
		var old []*process
		for i := range 2 {
			old = append(old, launch(peering.Options{Name: at.name, Identity: fmt.Sprint("old", i)}, lease))
		}
		working := func(of []*process) func() (n int) {
			return func() (n int) {
				for _, p := range of {
					if strings.HasPrefix(p.is(), "works") {
						n++
					}
				}
				return n
			}
		}
		Eventually(working(old)).Should(Equal(1))
		Expect(at.identities(ctx)).To(HaveLen(1), "one that stands by has no record")
		// A rolling update: one comes, one goes, and again.
		var fresh []*process
		began := time.Now()
		for i, goes := range old {
			comes := launch(peering.Options{Name: at.name, Identity: fmt.Sprint("new", i)}, lease)
			fresh = append(fresh, comes)
			Eventually(comes.is).Should(Or(pausedBecause("stands by"), HavePrefix("works")), "it may be the first to look at the lease of one that went")
			began = time.Now()
			Expect(goes.Process.Signal(syscall.SIGTERM)).To(Succeed())
			Eventually(goes.exited).Should(BeClosed())
		}
		Eventually(working(fresh)).Should(Equal(1))
		AddReportEntry("gap, from the end of the last old one", time.Since(began).String())
		Expect(time.Since(began)).To(BeNumerically("<", 10*time.Second))
		Eventually(func() []string { return at.identities(ctx) }).Should(ConsistOf(HavePrefix("new")))
	}, SpecTimeout(patience))

	// The next one looks at the lease each retry period or up to 2.2 of them. The lease has to be as it is for its duration
	// since the next one has seen it first; and then the record, if it is that of another identity.
	DescribeTable("go on after the crash of a leader, with a gap that is bounded (MIG-09, PEER-36)",
		func(ctx context.Context, shared bool, least, most time.Duration) {
			at := cluster(ctx)
			replica := func(identity string) *process {
				if shared {
					identity = "deployment"
				}
				return launch(peering.Options{Name: at.name, Identity: identity, Lifetime: shortLifetime}, childLease+"="+at.name, childHaste+"=yes")
			}
			leader := replica("one")
			Eventually(leader.is).Should(HavePrefix("works"))
			next := replica("two")
			Eventually(next.is).Should(pausedBecause("stands by"))
			Consistently(next.is).WithTimeout(shortLease).Should(pausedBecause("stands by"), "the lease is renewed")

			killed := time.Now()
			Expect(leader.Process.Kill()).To(Succeed())
			Eventually(next.is).Should(HavePrefix("works"))
			gap := next.since().Sub(killed)
			AddReportEntry("gap", gap.String())
			Expect(gap).To(And(BeNumerically(">", least), BeNumerically("<", most+slack)))
			Eventually(func() []string { return at.identities(ctx) }).Should(HaveLen(1))
		},
		// What has been renewed last may be older than usual, if the leader was slow.
		Entry("if the replicas share an identity", true, shortLease-shortRenewal, shortLease+shortRetry*22/5, SpecTimeout(patience)),
		Entry("if each has its own", false, shortLease-shortRenewal+shortLifetime, shortLease+shortRetry*22/5+shortLifetime, SpecTimeout(patience)),
	)
})
