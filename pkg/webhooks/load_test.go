package webhooks_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// load sends 50 admissions per second, or fewer on a busy machine. A failed webhook call fails the test. Calls without
// a response from the API server are only counted as lost.
type load struct {
	calls, connected, posted, failed, lost atomic.Int64
	ctx                                    context.Context
	cancel                                 context.CancelFunc
	wait                                   sync.WaitGroup

	mu sync.Mutex
	by map[string]int // answers by replica
}

const perSecond, workers = 50, 10

// startLoad creates widgets in a namespace, in dry runs, until finish is called.
func startLoad(t *testing.T, ns string) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{by: map[string]int{}, ctx: ctx, cancel: cancel}
	config := rest.CopyConfig(cp.Config)
	config.QPS, config.WarningHandler = -1, l
	c, err := client.New(config, client.Options{Scheme: scheme})
	must(err)
	t.Cleanup(l.finish)
	for range workers {
		l.wait.Go(func() {
			ticker := time.NewTicker(time.Second * workers / perSecond)
			defer ticker.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				n := l.calls.Add(1)
				// Calls do not use the context of the load, so that finish does not cancel them.
				err := c.Create(context.Background(), widget(ns, fmt.Sprint("w-", n), 1), client.DryRunAll)
				switch {
				case err == nil:
				case strings.Contains(err.Error(), "calling webhook"):
					l.failed.Add(1)
					t.Errorf("%s, call %d: %v", time.Now().Format(time.TimeOnly), n, err)
				default:
					l.lost.Add(1)
					t.Logf("%s, call %d has no response from the API server: %v", time.Now().Format(time.TimeOnly), n, err)
				}
			}
		})
	}
	return l
}

// addConnections adds calls with new connections, like API servers that were just started. The running API server
// reuses its connection while bundle and replica stay the same.
func (l *load) addConnections(t *testing.T, configuration, url string) {
	l.wait.Go(func() {
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-l.ctx.Done():
				return
			case <-ticker.C:
			}
			l.connected.Add(1)
			if err := connect(configuration, url); err != nil {
				l.failed.Add(1)
				t.Errorf("%s, with a new connection: %v", time.Now().Format(time.TimeOnly), err)
			}
		}
	})
}

// addPosts adds calls over reused connections, as API servers use them for Services. A call fails if a replica closes
// its connection during a review. The calls trust the caBundle at the time of posts.
func (l *load) addPosts(t *testing.T, configuration, url string) {
	c := keepAliveClient(configuration, 1)
	for range workers {
		l.wait.Go(func() {
			ticker := time.NewTicker(20 * time.Millisecond)
			defer ticker.Stop()
			for {
				select {
				case <-l.ctx.Done():
					c.CloseIdleConnections()
					return
				case <-ticker.C:
				}
				l.posted.Add(1)
				if err := post(c, url); err != nil {
					l.failed.Add(1)
					t.Errorf("%s, over a reused connection: %v", time.Now().Format(time.TimeOnly), err)
				}
			}
		})
	}
}

// connect calls the webhook like an API server that has just read the configuration.
func connect(configuration, url string) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(validatingEntries(configuration)[0].ClientConfig.CABundle)
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	return post(c, url)
}

func post(c *http.Client, url string) error {
	response, err := c.Post(url+"/v", "application/json", strings.NewReader(review()))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Response == nil || !answer.Response.Allowed {
		return fmt.Errorf("%s: %v", response.Status, answer.Response)
	}
	return nil
}

// expectAnswers checks that webhooks responded to all calls. It limits the calls without a response from the API
// server: to zero in long runs, and to 1 % in short runs.
func (l *load) expectAnswers(g Gomega, when string) {
	g.Expect(l.failed.Load()).To(BeZero(), when)
	if *rotationTime >= time.Minute {
		g.Expect(l.lost.Load()).To(BeZero(), when)
	}
	g.Expect(100*l.lost.Load()).To(BeNumerically("<=", l.calls.Load()), when)
}

// finish stops the load and waits for the last responses.
func (l *load) finish() {
	l.cancel()
	l.wait.Wait()
}

// HandleWarningHeader records the replica that responded.
func (l *load) HandleWarningHeader(_ int, _, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.by[text]++
}

// answers returns the number of responses by replica and in total.
func (l *load) answers() (by map[string]int, total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	by = map[string]int{}
	for replica, n := range l.by {
		by[replica] = n
		total += n
	}
	return by, total
}
