package kopfmulticluster

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

type configMap = *corev1.ConfigMap

// The control planes of all tests.
var east, west *controlplane.ControlPlane

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if testing.Short() {
		return m.Run()
	}
	log.SetLogger(funcr.New(func(string, string) {}, funcr.Options{}))
	for _, cp := range []**controlplane.ControlPlane{&east, &west} {
		started, err := controlplane.Start(controlplane.Options{})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer started.Stop() //nolint:errcheck // the process ends
		*cp = started
	}
	return m.Run()
}

// A fleet is a running manager with Setup, whose clusters the test adds and removes.
type fleet struct {
	*WithT
	mgr       mcmanager.Manager
	operators *operators
	log       lines

	cancels     map[multicluster.ClusterName]context.CancelFunc
	connections sync.WaitGroup
}

// newFleet runs a manager on the control plane east. Its readiness and liveness checks are those of the operators.
func newFleet(t *testing.T, each func(Cluster) []kopf.Option) *fleet {
	t.Helper()
	if testing.Short() {
		t.Skip("needs control planes")
	}
	f := &fleet{WithT: NewWithT(t), cancels: map[multicluster.ClusterName]context.CancelFunc{}}
	f.SetDefaultEventuallyTimeout(time.Minute)
	f.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	logger := funcr.New(func(_, args string) { f.log.add(args) }, funcr.Options{})
	mgr, err := mcmanager.New(east.Config, nil, manager.Options{Scheme: clientgoscheme.Scheme, Logger: logger, Metrics: server.Options{BindAddress: "0"}})
	f.Expect(err).NotTo(HaveOccurred())
	f.mgr = mgr
	f.Expect(setup(&captured{mgr, f}, each, 200*time.Millisecond)).To(Succeed())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		for _, cancel := range f.cancels {
			cancel()
		}
		f.connections.Wait()
		cancel()
		f.Eventually(ended).Should(Receive(BeNil()), "the manager does not stop")
	})
	f.Eventually(mgr.Elected()).Should(BeClosed())
	return f
}

// captured passes the runnable of Setup to the test.
type captured struct {
	mcmanager.Manager
	fleet *fleet
}

func (c *captured) Add(r mcmanager.Runnable) error {
	c.fleet.operators = r.(*operators)
	return c.Manager.Add(r)
}

func (*captured) AddReadyzCheck(string, healthz.Checker) error { return nil }

func connect(g *WithT, config *rest.Config) cluster.Cluster {
	cl, err := cluster.New(config, func(o *cluster.Options) { o.Scheme = clientgoscheme.Scheme })
	g.Expect(err).NotTo(HaveOccurred())
	return cl
}

// add engages a cluster, as a provider does. It does not use the Clusters of multicluster-runtime v0.24: a connection that ends there also removes the next
// one of the same name.
func (f *fleet) add(name multicluster.ClusterName, config *rest.Config) {
	ctx, cancel := context.WithCancel(context.Background())
	f.cancels[name] = cancel
	cl := connect(f.WithT, config)
	f.connections.Go(func() { _ = cl.Start(ctx) }) // it fails only without a cache
	f.Expect(cl.GetCache().WaitForCacheSync(ctx)).To(BeTrue())
	f.Expect(f.mgr.Engage(ctx, name, cl)).To(Succeed())
}

func (f *fleet) remove(name multicluster.ClusterName) { f.cancels[name]() }

// ended waits until the operators of all clusters except for those given have returned.
func (f *fleet) ended(except ...multicluster.ClusterName) {
	f.Eventually(func() int {
		f.operators.mu.Lock()
		defer f.operators.mu.Unlock()
		return len(f.operators.engagements)
	}).Should(Equal(len(except)))
}

func (f *fleet) ready() error { return f.operators.readyz(nil) }

// lines is a log.
type lines struct {
	discards atomic.Bool // all lines except for failures
	mu       sync.Mutex
	all      []string
}

func (l *lines) add(line string) {
	if l.discards.Load() && !strings.Contains(line, "has failed") {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
}

func (l *lines) find(words ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
lines:
	for _, line := range l.all {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue lines
			}
		}
		found = append(found, line)
	}
	return found
}

// direct returns a client without a cache.
func direct(g *WithT, cp *controlplane.ControlPlane) client.Client {
	c, err := client.New(cp.Config, client.Options{Scheme: clientgoscheme.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	return c
}

// newNamespace creates a namespace of one name in both control planes.
func newNamespace(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs control planes")
	}
	g := NewWithT(t)
	name := fmt.Sprint("test-", time.Now().UnixNano())
	for _, cp := range []*controlplane.ControlPlane{east, west} {
		c := direct(g, cp)
		g.Expect(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
	return name
}

// newConfigMap returns a ConfigMap that the handlers of the test of a namespace select by its label.
func newConfigMap(namespace, name string) configMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{namespace: "true"}}}
}

// A proxy forwards connections to an API server. While it is frozen, it accepts connections and forwards nothing.
type proxy struct {
	listener net.Listener
	target   string
	frozen   atomic.Pointer[chan struct{}] // closed when the proxy forwards again; nil while it forwards
}

func newProxy(t *testing.T, g *WithT, config *rest.Config) (*proxy, *rest.Config) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	address, _, err := rest.DefaultServerURL(config.Host, "", schema.GroupVersion{}, true)
	g.Expect(err).NotTo(HaveOccurred())
	p := &proxy{listener: listener, target: address.Host}
	t.Cleanup(func() { p.thaw(); _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()
	proxied := rest.CopyConfig(config)
	proxied.Host = "https://" + listener.Addr().String()
	return p, proxied
}

func (p *proxy) serve(conn net.Conn) {
	defer conn.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		p.forward(server, conn)
		_ = server.Close()
	}()
	p.forward(conn, server)
}

func (p *proxy) forward(to io.Writer, from io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if frozen := p.frozen.Load(); frozen != nil {
			<-*frozen
		}
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}

func (p *proxy) freeze() {
	frozen := make(chan struct{})
	p.frozen.Store(&frozen)
}

func (p *proxy) thaw() {
	if frozen := p.frozen.Swap(nil); frozen != nil {
		close(*frozen)
	}
}
