package webhooks_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

var rotationTime = flag.Duration("rotation", 20*time.Second, "how long certificates are rotated under load")

// A balancer stands before several servers, as a Service does; it leaves out those that are not ready.
type balancer struct {
	listener net.Listener
	mu       sync.Mutex
	ports    []int
	next     int
}

func balance(t *testing.T) *balancer {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	b := &balancer{listener: listener}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			go b.connect(in)
		}
	}()
	return b
}

func (b *balancer) port() int { return b.listener.Addr().(*net.TCPAddr).Port }

func (b *balancer) use(ports ...int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ports = slices.Clone(ports)
}

func (b *balancer) connect(in net.Conn) {
	defer in.Close()
	b.mu.Lock()
	b.next++
	port := b.ports[b.next%len(b.ports)]
	b.mu.Unlock()
	out, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return
	}
	defer out.Close()
	go func() {
		_, _ = io.Copy(out, in)
		_ = out.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(in, out)
}

// load makes 50 admissions a second until the function returned is called, which tells how many there were.
func load(t *testing.T, ns string) func() int {
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	var calls atomic.Int64
	for worker := range 5 {
		wait.Go(func() {
			ticker := time.NewTicker(100 * time.Millisecond)
			defer ticker.Stop()
			for i := 0; ; i++ {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				// The context of the test: a call that has begun is not to be cut off.
				if err := k8s.Create(t.Context(), widget(ns, fmt.Sprintf("w-%d-%d", worker, i), 1), client.DryRunAll); err != nil {
					t.Errorf("call %d of worker %d: %v", i, worker, err)
				}
				calls.Add(1)
			}
		})
	}
	return func() int {
		cancel()
		wait.Wait()
		return int(calls.Load())
	}
}

// handshake is what an API server does that has just read the configuration.
func handshake(name string, port int) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(validatingEntries(name)[0].ClientConfig.CABundle)
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
	if err != nil {
		return err
	}
	return conn.Close()
}

// Three replicas rotate their certificates under load: no call fails, and each replica is trusted at any time.
// With -rotation=2m for longer.
func TestRotationUnderLoad(t *testing.T) {
	needServer(t)
	g := NewWithT(t)
	ns, b, called := newNamespace(t), balance(t), &seen{}
	var replicas []*operator
	for i := range 3 {
		op := start(t, replica(ns, b, called, i > 0, webhooks.SelfManaged{Lifetime: 12 * time.Second, Settle: time.Second}))
		replicas = append(replicas, op)
		b.use(append(b.all(), op.port)...)
	}
	inForce(t, replicas[0], called)
	finish := load(t, ns)
	certificates := map[string]bool{}
	handshakes := 0
	for end := time.Now().Add(*rotationTime); time.Now().Before(end); {
		for _, op := range replicas {
			g.Expect(handshake(op.name, op.port)).To(Succeed())
			handshakes++
		}
		certificates[servedCA(t, ns)] = true
	}
	calls := finish()
	t.Logf("%d calls, %d handshakes, %d certificates", calls, handshakes, len(certificates))
	g.Expect(calls).To(BeNumerically(">", int(rotationTime.Seconds())*20))
	g.Expect(len(certificates)).To(BeNumerically(">=", 1+int(*rotationTime/(10*time.Second))))
	g.Expect(len(called.all())).To(BeNumerically(">=", calls))
}

func (b *balancer) all() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.ports)
}

func replica(ns string, b *balancer, called *seen, dead bool, certificates webhooks.SelfManaged) choices {
	return choices{
		ns: ns, dead: dead,
		hooks: []webhooks.Hook{validate(func(context.Context, *widgetRequest) error {
			called.add("x")
			return nil
		})},
		options: func(o *webhooks.Options) {
			o.ClientConfig.URL = new(fmt.Sprintf("https://127.0.0.1:%d", b.port()))
			o.Certificates = certificates
			o.Drain = 2 * time.Second
		},
	}
}

// Replicas are replaced one by one under load, with the policy Fail: no call fails, as a replica that is told to end
// is not ready at once, and serves until nobody calls it.
func TestRollingRestart(t *testing.T) {
	needServer(t)
	g := NewWithT(t)
	ns, b, called := newNamespace(t), balance(t), &seen{}
	var replicas []*operator
	for i := range 2 {
		op := start(t, replica(ns, b, called, i > 0, webhooks.SelfManaged{}))
		replicas = append(replicas, op)
		b.use(append(b.all(), op.port)...)
	}
	inForce(t, replicas[0], called)
	finish := load(t, ns)
	for i := range replicas {
		fresh := start(t, replica(ns, b, called, true, webhooks.SelfManaged{}))
		old := replicas[i]
		ended := make(chan error)
		go func() { ended <- old.stop() }()
		g.Eventually(func() error { return old.server.Readyz(nil) }).Should(MatchError(ContainSubstring("about to end")))
		ports := slices.DeleteFunc(b.all(), func(port int) bool { return port == old.port })
		b.use(append(ports, fresh.port)...)
		g.Expect(<-ended).To(Succeed())
		replicas[i] = fresh
	}
	t.Logf("%d calls", finish())
}
