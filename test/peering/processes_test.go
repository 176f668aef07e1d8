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

// With these variables, the test binary runs an operator that specs can kill.
const (
	childEnv        = "KOPF_PEERING_CHILD"             // options as JSON
	childLease      = "KOPF_PEERING_CHILD_LEASE"       // name of the lease, if any
	childShortLease = "KOPF_PEERING_CHILD_SHORT_LEASE" // if set, the operator uses a short lease
)

// A short lease has a third of the default durations, and a quarter of the default retry period.
const (
	shortLease, shortRenewal = 5 * time.Second, 4 * time.Second
	shortRetry               = 500 * time.Millisecond
	shortLifetime            = 8 * time.Second
)

// slack is additional time for requests on a busy machine.
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
	if os.Getenv(childShortLease) != "" {
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
				fmt.Println(strings.ReplaceAll(now, "\n", "; ")) // the text has one line for each namespace
				last = now
			}
		}
	}()
	must(mgr.Start(ctrl.SetupSignalHandler()))
	return 0
}

// process is an operator in its own process.
type process struct {
	*exec.Cmd
	exited chan struct{}

	mu   sync.Mutex
	last string    // last reported state
	when time.Time // time of the last report
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
		_ = p.Process.Kill() // the process may have exited
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
	It("pause for a higher priority and resume when that operator stops (PEER-21, PEER-32)", func(ctx context.Context) {
		at := cluster(ctx)
		low := launch(peering.Options{Name: at.name, Identity: "low"})
		Eventually(low.is).Should(HavePrefix("works"))
		const prompt = 2 * time.Second
		exit, release := prompt, prompt
		for range 3 { // repeat the measurement on a busy machine
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
		Expect(exit).To(BeNumerically("<", prompt), "the process must exit promptly")
		Expect(release).To(BeNumerically("<", prompt), "the other operator must resume promptly")
		Expect(at.identities(ctx)).To(Equal([]string{"low"}))
	}, SpecTimeout(specTimeout))

	It("resume within the lifetime of a killed operator (PEER-31, PEER-34)", func(ctx context.Context) {
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
		AddReportEntry("resumed after", gap.String())
		Expect(gap).To(And(BeNumerically(">", shortLifetime-4*time.Second), BeNumerically("<", shortLifetime+slack)))
		Eventually(func() []string { return at.identities(ctx) }).Should(Equal([]string{"low"}), "PEER-31: the operator must remove the expired record")
	}, SpecTimeout(specTimeout))

	It("work in the order of their priorities, also after the first operator is stopped or killed (PEER-30, PEER-31, PEER-32)", func(ctx context.Context) {
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
	}, SpecTimeout(specTimeout))

	It("pause only in namespaces with a conflict and keep unreadable records (PEER-06, PEER-33)", func(ctx context.Context) {
		one, two, name := newNamespace(ctx), newNamespace(ctx), unique()
		at := peeringObject{v1.Group, one, name}.create(ctx)
		peeringObject{v1.Group, two, name}.create(ctx)
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
	}, SpecTimeout(specTimeout))

	It("all pause with equal priorities and report it (PEER-35)", func(ctx context.Context) {
		at := cluster(ctx)
		var all []*process
		for i := range 3 {
			all = append(all, launch(peering.Options{Name: at.name, Identity: fmt.Sprint("p", i), Lifetime: 6 * time.Second}))
		}
		for _, p := range all {
			Eventually(p.is).Should(pausedBecause("the same priority as this operator, so all of them pause"))
		}
		Consistently(func() (all3 []bool) {
			for _, p := range all {
				all3 = append(all3, strings.HasPrefix(p.is(), "paused"))
			}
			return all3
		}).WithTimeout(8 * time.Second).Should(HaveEach(true)) // the timeout is longer than a lifetime
	}, SpecTimeout(specTimeout))

	It("have a bounded gap during a rolling update with leader election", func(ctx context.Context) {
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
		Expect(at.identities(ctx)).To(HaveLen(1), "only the leader may have a record")
		// A rolling update starts and stops one replica at a time.
		var replacements []*process
		began := time.Now()
		for i, oldReplica := range old {
			newReplica := launch(peering.Options{Name: at.name, Identity: fmt.Sprint("new", i)}, lease)
			replacements = append(replacements, newReplica)
			Eventually(newReplica.is).Should(Or(pausedBecause("waits to become the leader"), HavePrefix("works")), "the new replica may acquire a released lease first")
			began = time.Now()
			Expect(oldReplica.Process.Signal(syscall.SIGTERM)).To(Succeed())
			Eventually(oldReplica.exited).Should(BeClosed())
		}
		Eventually(working(replacements)).Should(Equal(1))
		AddReportEntry("gap after the last old replica", time.Since(began).String())
		Expect(time.Since(began)).To(BeNumerically("<", 10*time.Second))
		Eventually(func() []string { return at.identities(ctx) }).Should(ConsistOf(HavePrefix("new")))
	}, SpecTimeout(specTimeout))

	// A standby replica checks the lease every one to 2.2 retry periods. It takes over when the lease has not changed
	// for its duration, and resumes when the record of another identity has expired.
	DescribeTable("have a bounded gap after the crash of the leader (MIG-09, PEER-36)",
		func(ctx context.Context, shared bool, least, most time.Duration) {
			at := cluster(ctx)
			replica := func(identity string) *process {
				if shared {
					identity = "deployment"
				}
				return launch(peering.Options{Name: at.name, Identity: identity, Lifetime: shortLifetime}, childLease+"="+at.name, childShortLease+"=yes")
			}
			leader := replica("one")
			Eventually(leader.is).Should(HavePrefix("works"))
			next := replica("two")
			Eventually(next.is).Should(pausedBecause("waits to become the leader"))
			Consistently(next.is).WithTimeout(shortLease).Should(pausedBecause("waits to become the leader"), "the leader must renew the lease")

			killed := time.Now()
			Expect(leader.Process.Kill()).To(Succeed())
			Eventually(next.is).Should(HavePrefix("works"))
			gap := next.since().Sub(killed)
			AddReportEntry("gap", gap.String())
			Expect(gap).To(And(BeNumerically(">", least), BeNumerically("<", most+slack)))
			Eventually(func() []string { return at.identities(ctx) }).Should(HaveLen(1))
		},
		// A slow leader may have renewed the lease less recently.
		Entry("if the replicas share an identity", true, shortLease-shortRenewal, shortLease+shortRetry*22/5, SpecTimeout(specTimeout)),
		Entry("if each replica has its own identity", false, shortLease-shortRenewal+shortLifetime, shortLease+shortRetry*22/5+shortLifetime, SpecTimeout(specTimeout)),
	)
})
