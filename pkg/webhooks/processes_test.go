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

var rotationTime = flag.Duration("rotation", 10*time.Second, "duration of the rotation of certificates under load")

// frequentRotation replaces certificates every six seconds. The long lifetime and the delay of two seconds tolerate a
// busy machine.
var frequentRotation = webhooks.SelfManaged{Lifetime: 300 * time.Second, RenewBefore: 294 * time.Second, PropagationDelay: 2 * time.Second}

// rareRotation does not replace certificates during a test.
var rareRotation = webhooks.SelfManaged{Lifetime: 300 * time.Second, RenewBefore: 10 * time.Second, PropagationDelay: 2 * time.Second}

// childEnv is the name of a variable with a replicaSetup as JSON. If it is set, the test binary runs as a replica of an
// operator.
const childEnv = "KOPF_WEBHOOKS_CHILD"

type replicaSetup struct {
	Namespace, Name, URL, Host string
	Port, Probes               int
	Drain                      time.Duration
	Certificates               webhooks.SelfManaged
}

// maxTimeout tolerates a busy machine.
var maxTimeout = webhooks.TimeoutSeconds(30)

// runReplica runs an operator as in production: with leader election, probes, and the failure policy Fail.
func runReplica() int {
	var setup replicaSetup
	must(json.Unmarshal([]byte(os.Getenv(childEnv)), &setup))
	me := fmt.Sprint("replica ", os.Getpid())
	ctrl.SetLogger(funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, me, prefix, args) }, funcr.Options{}))
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	config.QPS = -1 // this is the default of ctrl.GetConfig
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: fmt.Sprintf("127.0.0.1:%d", setup.Probes),
		WebhookServer:          webhook.NewServer(webhook.Options{Host: setup.Host, Port: setup.Port}),
		LeaderElection:         true, LeaderElectionID: "replicas", LeaderElectionNamespace: setup.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 new(5 * time.Minute), RenewDeadline: new(4 * time.Minute), // these times are long enough for a busy machine
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
		}, maxTimeout),
		mutate(func(_ context.Context, req *widgetRequest) error {
			req.Object.Spec.Color = "red"
			return nil
		}, maxTimeout),
	).SetupWithManager())
	must(mgr.Start(ctrl.SetupSignalHandler()))
	return 0
}

// process is the process of a replica.
type process struct {
	*exec.Cmd
	setup   replicaSetup
	exited  chan struct{}
	err     error // error of the process; valid after exited is closed
	log     *outputBuffer
	answers []bool // results of readiness probes
}

type outputBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *outputBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *outputBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// launch starts a replica behind a balancer and waits until it is ready.
func launch(t *testing.T, b *balancer, kubeconfig string, setup replicaSetup) *process {
	t.Helper()
	setup.Port, setup.Probes = freePort(), freePort()
	text, err := json.Marshal(setup)
	must(err)
	p := &process{Cmd: exec.Command(os.Args[0]), setup: setup, exited: make(chan struct{}), log: &outputBuffer{}}
	p.Env = append(os.Environ(), childEnv+"="+string(text), "KUBECONFIG="+kubeconfig)
	p.Stdout, p.Stderr = p.log, p.log
	must(p.Start())
	go func() {
		p.err = p.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill() // the process may have exited
		<-p.exited
		if t.Failed() {
			t.Log(p.log.String())
		}
	})
	b.add(p)
	NewWithT(t).Eventually(func() bool {
		if p.hasExited() {
			StopTrying("the replica exited").Wrap(p.err).Now()
		}
		return slices.Contains(b.ready(), p)
	}).WithTimeout(2*time.Minute).Should(BeTrue(), p.log.String)
	return p
}

// url returns the address of the replica.
func (p *process) url() string { return fmt.Sprintf("https://%s:%d", p.setup.Host, p.setup.Port) }

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// isReady sends a readiness probe. An error keeps the previous result.
func (p *process) isReady(c *http.Client) (ready bool, err error) {
	response, err := c.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", p.setup.Probes))
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK, nil
}

// Three replicas answer 50 admissions per second with the failure policy Fail. First, their certificates are rotated
// every few seconds. Then all replicas are replaced one by one, during rotations and without them. No call fails, and
// each replica is always trusted. -rotation=2m increases the duration.
func TestServer_ReplicasUnderLoad(t *testing.T) {
	needServer(t)
	g, ns, b := NewWithT(t), newNamespace(t), startBalancer(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(cp.WriteKubeconfig(kubeconfig))
	setup := replicaSetup{
		Namespace: ns, Name: ns + ".example.com", URL: b.url(), Host: b.host(), Certificates: frequentRotation,
		Drain: 15 * time.Second, // connecting takes seconds on a busy machine
	}
	t.Cleanup(func() {
		for _, obj := range emptyConfigurations(setup.Name) {
			must(client.IgnoreNotFound(k8s.Delete(context.Background(), obj)))
		}
	})
	var replicas []*process
	for range 3 {
		replicas = append(replicas, launch(t, b, kubeconfig, setup))
	}
	probe := startLoad(t, ns) // the API server calls webhooks when the configurations are written
	g.Eventually(func() int { _, n := probe.answers(); return n }).ShouldNot(BeZero())
	probe.finish()
	for _, e := range validatingEntries(setup.Name) {
		g.Expect(*e.FailurePolicy).To(Equal(admissionregistrationv1.Fail))
	}

	l := startLoad(t, ns)
	l.addConnections(t, setup.Name, setup.URL)
	began, direct, certificates := time.Now(), 0, map[string]bool{}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for ; time.Since(began) < *rotationTime || len(certificates) < 2 && time.Since(began) < time.Minute; <-ticker.C {
		for _, p := range replicas {
			g.Expect(connect(setup.Name, p.url())).To(Succeed())
			direct++
		}
		certificates[servedCertificate(t, ns)] = true
	}
	calls := l.calls.Load()
	t.Logf("rotation: %d calls in %s, and %d over new connections, %d failed; %d certificates; %d calls to single replicas",
		calls, time.Since(began).Round(time.Second), l.connected.Load(), l.failed.Load(), len(certificates), direct)
	if *rotationTime >= time.Minute { // long runs were requested explicitly
		g.Expect(calls).To(BeNumerically(">=", 0.9*perSecond*rotationTime.Seconds()), "want the requested load; the machine may be too busy")
	}
	l.expectAnswers(g, "during the rotation")
	g.Expect(len(certificates)).To(BeNumerically(">=", max(2, int(*rotationTime/(10*time.Second)))), "want rotated certificates")

	setup.Certificates = rareRotation
	for _, when := range []string{"during rotations", "without rotations"} {
		began, calls, connected := time.Now(), l.calls.Load(), l.connected.Load()
		before := replicas
		replicas = nil
		for _, old := range before {
			replicas = append(replicas, launch(t, b, kubeconfig, setup))
			g.Expect(old.Process.Signal(syscall.SIGTERM)).To(Succeed())
		}
		for _, old := range before {
			g.Eventually(old.exited).WithTimeout(2 * time.Minute).Should(BeClosed())
			g.Expect(old.err).NotTo(HaveOccurred(), "want no error of the replica")
		}
		_, sofar := l.answers()
		g.Eventually(func() int { _, n := l.answers(); return n - sofar }).WithTimeout(3*time.Minute).Should(BeNumerically(">", perSecond), "want responses of the new replicas")
		for _, p := range replicas {
			g.Expect(connect(setup.Name, p.url())).To(Succeed())
		}
		t.Logf("rolling restart %s: %d calls in %s, %d over new connections and %d over reused connections, %d failed", when,
			l.calls.Load()-calls, time.Since(began).Round(time.Second), l.connected.Load()-connected, l.posted.Load(), l.failed.Load())
		l.expectAnswers(g, when)
		if l.posted.Load() == 0 {
			g.Eventually(func() []byte { return secretOf(t, ns).Data["next.crt"] }).Should(BeEmpty(), "want the last rotation finished")
			l.addPosts(t, setup.Name, setup.URL)
		}
	}
	l.finish()
	l.expectAnswers(g, "at the end")
	g.Expect(l.posted.Load()).NotTo(BeZero())

	by, total := l.answers()
	t.Logf("responses: %v", by)
	g.Expect(total).To(BeEquivalentTo(l.calls.Load()-l.lost.Load()), "want one response per call")
}
