package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// childPeer makes the child process an operator with peers. Its value is a peerSetup as JSON.
const childPeer = "KOPF_E2E_CHILD_PEER"

type peerSetup struct {
	Peers   peering.Options
	Lease   string        // name of the lease; empty: no leader election
	Release bool          // whether the process releases the lease when it stops
	Work    time.Duration // duration of each handler
	Tick    time.Duration // interval of a timer; zero: no timer
	Short   bool          // whether leases are short, and writes of widgets are printed
}

// peerChild runs an operator that prints the calls of its handlers and its peering transitions, with times.
func peerChild() int {
	var setup peerSetup
	must(json.Unmarshal([]byte(os.Getenv(childPeer)), &setup))
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	config.QPS = -1 // like ctrl.GetConfig, disable the client-side rate limit
	ctrl.SetLogger(peeringLogger())
	options := manager.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		Cache:          cache.Options{DefaultNamespaces: map[string]cache.Config{os.Getenv(childEnv): {}}},
		LeaderElection: setup.Lease != "", LeaderElectionID: setup.Lease,
		LeaderElectionNamespace: os.Getenv(childEnv), LeaderElectionReleaseOnCancel: setup.Release,
	}
	var more []kopf.Option
	if setup.Short {
		lease, deadline, retry := 3*time.Second, 2*time.Second, 500*time.Millisecond
		options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = &lease, &deadline, &retry
		more = append(more, kopf.WithLeaseDurations(lease, deadline, retry))
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return printingTransport{next} })
	}
	mgr, err := manager.New(config, options)
	must(err)
	type Request = kopf.Request[*v1.Widget]
	widgets := kopf.For(&v1.Widget{}).
		OnResume("resume", func(_ context.Context, req *Request) error { printEvent("resumes " + req.Object.Name); return nil }).
		On("work", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}, func(ctx context.Context, req *Request) error {
			printEvent("begins " + req.Object.Name)
			if !wait(ctx, setup.Work) {
				return context.Cause(ctx)
			}
			printEvent(fmt.Sprintf("done %s %d", req.Object.Name, req.Object.Spec.Size))
			return nil
		}).
		Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, req *Request) error {
			printEvent("begins daemon of " + req.Object.Name)
			<-ctx.Done()
			printEvent("ends daemon of " + req.Object.Name)
			return nil
		})
	if setup.Tick > 0 {
		widgets.Timer("tick", daemons.Timer{Interval: setup.Tick}, func(_ context.Context, req *Request) error {
			printEvent("begins tick of " + req.Object.Name)
			return nil
		})
	}
	must(kopf.SetupWithManager(mgr, append(more, widgets, kopf.WithPeering(setup.Peers))...))
	printEvent("starts")
	must(mgr.Start(ctrl.SetupSignalHandler()))
	return 0
}

// A printingTransport prints each write of a widget.
type printingTransport struct{ http.RoundTripper }

func (p printingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/widgets/") {
		printEvent("writes " + r.URL.Path)
	}
	return p.RoundTripper.RoundTrip(r)
}

var printMu sync.Mutex

func printEvent(what string) {
	printMu.Lock()
	defer printMu.Unlock()
	fmt.Println(time.Now().UnixNano(), what)
}

// peeringLogger prints the transitions when the operator logs them.
func peeringLogger() logr.Logger {
	return funcr.NewJSON(func(text string) {
		var line struct{ Logger, Msg, Reason string }
		must(json.Unmarshal([]byte(text), &line))
		switch line.Msg {
		case "Paused", "Still paused", "Paused because peering is failing":
			printEvent("paused: " + line.Reason)
		case "Not paused", "Resumed":
			printEvent("works: " + line.Reason)
		}
	}, funcr.Options{})
}

// A peer is a child process.
type peer struct {
	*exec.Cmd
	exited chan struct{}

	mu      sync.Mutex
	entries []entry
}

type entry struct {
	at   time.Time
	what string
}

func launchPeer(namespace string, setup peerSetup) *peer {
	GinkgoHelper()
	text, err := json.Marshal(setup)
	Expect(err).NotTo(HaveOccurred())
	kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(cp.WriteKubeconfig(kubeconfig)).To(Succeed())
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childEnv+"="+namespace, childPeer+"="+string(text), "KUBECONFIG="+kubeconfig)
	return run(command)
}

// run starts a child process and collects the lines that it prints.
func run(command *exec.Cmd) *peer {
	GinkgoHelper()
	p := &peer{Cmd: command, exited: make(chan struct{})}
	p.Stderr = GinkgoWriter
	out, err := p.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(p.Start()).To(Succeed())
	go func() {
		defer close(p.exited)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.addLine(lines.Text())
		}
		_ = p.Wait()
	}()
	DeferCleanup(func() {
		_ = p.Process.Kill() // the process may have ended
		<-p.exited
	})
	return p
}

func (p *peer) addLine(line string) {
	when, what, _ := strings.Cut(line, " ")
	nanoseconds, err := strconv.ParseInt(when, 10, 64)
	if err != nil {
		GinkgoWriter.Println(line) // the line may belong to a report of the race detector
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entries = append(p.entries, entry{time.Unix(0, nanoseconds), what})
}

func (p *peer) all() []entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clip(p.entries)
}

// state returns the last printed state of the peering.
func (p *peer) state() string { return p.last("paused: ", "works: ").what }

// last returns the last line with one of the prefixes.
func (p *peer) last(prefixes ...string) (last entry) {
	for _, one := range p.all() {
		for _, prefix := range prefixes {
			if strings.HasPrefix(one.what, prefix) {
				last = one
			}
		}
	}
	return last
}

// count counts the lines with a prefix.
func (p *peer) count(prefix string) func() int {
	return func() (n int) {
		for _, one := range p.all() {
			if strings.HasPrefix(one.what, prefix) {
				n++
			}
		}
		return n
	}
}
