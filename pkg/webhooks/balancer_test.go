package webhooks_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// balancer forwards connections to ready replicas in turn, as a Service does.
type balancer struct {
	listener net.Listener
	mu       sync.Mutex
	replicas []*process
	next     int
}

const (
	// probeInterval is the interval of readiness probes.
	probeInterval = 200 * time.Millisecond
	// probeLag is the number of probes until a result takes effect, because changes of endpoints propagate slowly.
	probeLag = 3
)

func startBalancer(t *testing.T) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(nonLoopbackAddress(t), "0"))
	must(err)
	b := &balancer{listener: listener}
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		wait.Wait()
	})
	wait.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			go b.connect(in)
		}
	})
	wait.Go(func() { b.probe(ctx) })
	return b
}

// url returns the address for clients.
func (b *balancer) url() string { return "https://" + b.listener.Addr().String() }

// host returns the IP address of the balancer.
func (b *balancer) host() string { return b.listener.Addr().(*net.TCPAddr).IP.String() }

// nonLoopbackAddress returns an address of this machine that is not a loopback address. API servers use HTTP/2 for
// localhost, and HTTP/1.1 for other addresses and for Services.
func nonLoopbackAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	must(err)
	for _, address := range addresses {
		if n, ok := address.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Log("this machine has no external address, so the API server uses HTTP/2, unlike for Services")
	return "127.0.0.1"
}

// add probes a replica until it exits.
func (b *balancer) add(p *process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicas = append(b.replicas, p)
}

// ready returns the replicas that receive connections.
func (b *balancer) ready() (ready []*process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.replicas {
		if i := len(p.answers) - 1 - probeLag; i >= 0 && p.answers[i] {
			ready = append(ready, p)
		}
	}
	return ready
}

func (b *balancer) probe(ctx context.Context) {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		b.mu.Lock()
		b.replicas = slices.DeleteFunc(b.replicas, (*process).hasExited)
		all := slices.Clone(b.replicas)
		b.mu.Unlock()
		for _, p := range all {
			answer, err := p.isReady(client)
			b.mu.Lock()
			if n := len(p.answers); err != nil && n > 0 {
				answer = p.answers[n-1]
			}
			p.answers = append(p.answers, answer)
			b.mu.Unlock()
		}
	}
}

func (b *balancer) connect(in net.Conn) {
	defer in.Close()
	ready := b.ready()
	if len(ready) == 0 {
		return
	}
	b.mu.Lock()
	b.next++
	chosen := ready[b.next%len(ready)].setup
	b.mu.Unlock()
	out, err := net.Dial("tcp", net.JoinHostPort(chosen.Host, strconv.Itoa(chosen.Port)))
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
