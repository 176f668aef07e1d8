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

// A balancer stands before replicas, as a Service does: each new connection goes to the next one that is ready.
type balancer struct {
	listener net.Listener
	mu       sync.Mutex
	replicas []*process
	next     int
}

const (
	// probeInterval is how often replicas are asked whether they are ready, as a kubelet asks them.
	probeInterval = 200 * time.Millisecond
	// probeLag is how many answers it takes until an answer counts: changes of endpoints need time to get around.
	probeLag = 3
)

func balance(t *testing.T) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(outerAddress(t), "0"))
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

// url is where the API server and others find it.
func (b *balancer) url() string { return "https://" + b.listener.Addr().String() }

// host is the address before the port.
func (b *balancer) host() string { return b.listener.Addr().(*net.TCPAddr).IP.String() }

// outerAddress is one of this machine by which it is not itself: to what it calls localhost, an API server speaks HTTP/2; to
// all others, and to Services, it speaks HTTP/1.1.
func outerAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	must(err)
	for _, address := range addresses {
		if n, ok := address.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Log("this machine is in no network: the API server calls it by HTTP/2, unlike Services")
	return "127.0.0.1"
}

// add has a replica probed, until it has exited.
func (b *balancer) add(p *process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicas = append(b.replicas, p)
}

// ready are the replicas that get connections.
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
