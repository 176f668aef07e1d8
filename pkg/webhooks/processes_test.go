package webhooks_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

var rotationTime = flag.Duration("rotation", 10*time.Second, "how long certificates are rotated under load")

// often replaces certificates every six seconds, and what it takes to do that. They do not expire soon, and API servers have time to
// see the next one: a busy machine is slow at both.
var often = webhooks.SelfManaged{Lifetime: 300 * time.Second, RenewBefore: 294 * time.Second, Settle: 2 * time.Second}

// seldom leaves certificates alone for as long as a test takes.
var seldom = webhooks.SelfManaged{Lifetime: 300 * time.Second, RenewBefore: 10 * time.Second, Settle: 2 * time.Second}

// childEnv makes this test binary a replica of an operator: a replicaSetup, as JSON.
const childEnv = "KOPF_WEBHOOKS_CHILD"

type replicaSetup struct {
	Namespace, Name, URL, Host string
	Port, Probes               int
	Drain                      time.Duration
	Certificates               webhooks.SelfManaged
}

// patiently is for machines that are busy with other things.
var patiently = webhooks.TimeoutSeconds(30)

// child is an operator as in production: with a leader, with probes, and the policy Fail.
func child() int {
	var setup replicaSetup
	must(json.Unmarshal([]byte(os.Getenv(childEnv)), &setup))
	me := fmt.Sprint("replica ", os.Getpid())
	ctrl.SetLogger(funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, me, prefix, args) }, funcr.Options{}))
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	config.QPS = -1 // as ctrl.GetConfig has it
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: fmt.Sprintf("127.0.0.1:%d", setup.Probes),
		WebhookServer:          webhook.NewServer(webhook.Options{Host: setup.Host, Port: setup.Port}),
		LeaderElection:         true, LeaderElectionID: "replicas", LeaderElectionNamespace: setup.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 new(5 * time.Minute), RenewDeadline: new(4 * time.Minute), // on a busy machine, nobody is dead so soon
	})
	must(err)
	must(webhooks.New(mgr, webhooks.Options{
		Name: setup.Name, Configurations: webhooks.Managed, Namespace: setup.Namespace, Namespaces: []string{setup.Namespace},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &setup.URL},
		Certificates: setup.Certificates,
		Drain:        setup.Drain,
	}).Add(
		validate(func(_ context.Context, req *widgetRequest) error {
			req.Warn(me)
			return nil
		}, patiently),
		mutate(func(_ context.Context, req *widgetRequest) error {
			req.Object.Spec.Color = "red"
			return nil
		}, patiently),
	).SetupWithManager())
	must(mgr.Start(ctrl.SetupSignalHandler()))
	return 0
}

// A process is a replica.
type process struct {
	*exec.Cmd
	setup   replicaSetup
	exited  chan struct{}
	err     error     // of the exit
	log     *textbook // what it has logged
	answers []bool    // whether it was ready, of the balancer
}

type textbook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *textbook) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *textbook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// launch starts a replica behind a balancer, and waits until it gets connections.
func launch(t *testing.T, b *balancer, kubeconfig string, setup replicaSetup) *process {
	t.Helper()
	setup.Port, setup.Probes = freePort(), freePort()
	text, err := json.Marshal(setup)
	must(err)
	p := &process{Cmd: exec.Command(os.Args[0]), setup: setup, exited: make(chan struct{}), log: &textbook{}}
	p.Env = append(os.Environ(), childEnv+"="+string(text), "KUBECONFIG="+kubeconfig)
	p.Stdout, p.Stderr = p.log, p.log
	must(p.Start())
	go func() {
		p.err = p.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill() // it may have gone
		<-p.exited
		if t.Failed() {
			t.Log(p.log.String())
		}
	})
	b.add(p)
	NewWithT(t).Eventually(func() bool {
		if p.hasExited() {
			StopTrying("it has exited").Wrap(p.err).Now()
		}
		return slices.Contains(b.ready(), p)
	}).WithTimeout(2*time.Minute).Should(BeTrue(), p.log.String)
	return p
}

// url is that of the replica itself, without the balancer.
func (p *process) url() string { return fmt.Sprintf("https://%s:%d", p.setup.Host, p.setup.Port) }

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// isReady asks as a kubelet does: no answer is no news for a while.
func (p *process) isReady(c *http.Client) (ready bool, err error) {
	response, err := c.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", p.setup.Probes))
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK, nil
}

// Three replicas, which are processes, under 50 admissions a second with the policy Fail: first their certificates are rotated
// every few seconds, then they are replaced one after another, the leader among them; and once more while nothing is rotated, so that
// connections are not given up for that. No call fails, and each replica is trusted at any time. With -rotation=2m for longer.
func TestReplicas(t *testing.T) {
	needServer(t)
	g, ns, b := NewWithT(t), newNamespace(t), balance(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(cp.WriteKubeconfig(kubeconfig))
	setup := replicaSetup{
		Namespace: ns, Name: ns + ".example.com", URL: b.url(), Host: b.host(), Certificates: often,
		Drain: 15 * time.Second, // on a busy machine it takes seconds until a connection is there
	}
	t.Cleanup(func() {
		for _, obj := range configurations(setup.Name) {
			must(client.IgnoreNotFound(k8s.Delete(context.Background(), obj)))
		}
	})
	var replicas []*process
	for range 3 {
		replicas = append(replicas, launch(t, b, kubeconfig, setup))
	}
	asked := begin(t, ns) // nobody is asked until the configurations are there
	g.Eventually(func() int { _, n := asked.answers(); return n }).ShouldNot(BeZero())
	asked.finish()
	for _, e := range validatingEntries(setup.Name) {
		g.Expect(*e.FailurePolicy).To(Equal(admissionregistrationv1.Fail))
	}

	l := begin(t, ns)
	l.connects(t, setup.Name, setup.URL)
	began, direct, certificates := time.Now(), 0, map[string]bool{}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for ; time.Since(began) < *rotationTime || len(certificates) < 2 && time.Since(began) < time.Minute; <-ticker.C {
		for _, p := range replicas {
			g.Expect(connect(setup.Name, p.url())).To(Succeed())
			direct++
		}
		certificates[servedCA(t, ns)] = true
	}
	calls := l.calls.Load()
	t.Logf("rotation: %d calls in %s, and %d with connections of their own, %d failed; %d certificates; besides, %d calls straight to each of the replicas in turn",
		calls, time.Since(began).Round(time.Second), l.connected.Load(), l.failed.Load(), len(certificates), direct)
	if *rotationTime >= time.Minute { // somebody wants to know
		g.Expect(calls).To(BeNumerically(">=", 0.9*perSecond*rotationTime.Seconds()), "the machine was too busy for the load")
	}
	l.answered(g, "during the rotation")
	g.Expect(len(certificates)).To(BeNumerically(">=", max(2, int(*rotationTime/(10*time.Second)))), "they were rotated")

	setup.Certificates = seldom
	for _, when := range []string{"while certificates were rotated", "while they were not"} {
		began, calls, connected := time.Now(), l.calls.Load(), l.connected.Load()
		before := replicas
		replicas = nil
		for _, old := range before {
			replicas = append(replicas, launch(t, b, kubeconfig, setup))
			g.Expect(old.Process.Signal(syscall.SIGTERM)).To(Succeed())
		}
		for _, old := range before {
			g.Eventually(old.exited).WithTimeout(2 * time.Minute).Should(BeClosed())
			g.Expect(old.err).NotTo(HaveOccurred(), "it ends in peace")
		}
		_, sofar := l.answers()
		g.Eventually(func() int { _, n := l.answers(); return n - sofar }).WithTimeout(3*time.Minute).Should(BeNumerically(">", perSecond), "the new ones answer")
		for _, p := range replicas {
			g.Expect(connect(setup.Name, p.url())).To(Succeed())
		}
		t.Logf("rolling restart %s: %d calls in %s, %d with connections of their own and %d over connections that were kept, %d failed", when,
			l.calls.Load()-calls, time.Since(began).Round(time.Second), l.connected.Load()-connected, l.posted.Load(), l.failed.Load())
		l.answered(g, when)
		if l.posted.Load() == 0 {
			g.Eventually(func() []byte { return secretOf(t, ns).Data["next.crt"] }).Should(BeEmpty(), "the last rotation has come to its end")
			l.posts(t, setup.Name, setup.URL)
		}
	}
	l.finish()
	l.answered(g, "at the end")
	g.Expect(l.posted.Load()).NotTo(BeZero())

	by, total := l.answers()
	t.Logf("answers: %v", by)
	g.Expect(total).To(BeEquivalentTo(l.calls.Load()-l.lost.Load()), "each call was answered by a replica")
}
