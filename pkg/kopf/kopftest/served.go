package kopftest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kopf-runtime/kopf-runtime/internal/bridge"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// admission returns the webhook server for the manager of an operator, and what is to be done when that has ended.
func (c *Cluster) admission() (server webhook.Server, forget func()) {
	if c.server != nil {
		server = &unserved{}
		return server, bridge.ServeAs(server, nil)
	}
	slot, release := cmp.Or(c.slots, &slots{}).take()
	port, err := freePort()
	if err != nil {
		release()
		server = &unserved{err: fmt.Errorf("no port for admission handlers: %w", err)}
		return server, func() {}
	}
	const host = "127.0.0.1"
	server = webhook.NewServer(webhook.Options{Host: host, Port: port})
	options := &webhooks.Options{
		Name:           fmt.Sprintf("%s-%d.%s", prefix, slot, cmp.Or(c.Namespace, metav1.NamespaceDefault)) + ".test",
		Configurations: webhooks.Managed,
		Exit:           webhooks.RemoveOnExit,
		Certificates:   webhooks.SelfManaged{SecretName: fmt.Sprintf("%s-%d", prefix, slot)},
		Namespace:      cmp.Or(c.Namespace, metav1.NamespaceDefault),
		ClientConfig:   admissionregistrationv1.WebhookClientConfig{URL: new(fmt.Sprintf("https://%s:%d", host, port))},
	}
	if c.Namespace != "" {
		options.Namespaces = []string{c.Namespace}
	}
	takeBack := bridge.ServeAs(server, options)
	return server, func() {
		takeBack()
		release()
	}
}

// prefix begins the names of what is made for admission handlers to be served.
const prefix = "kopftest"

// isForAdmission tells what is written for admission handlers to be served.
func isForAdmission(w Write) bool {
	switch w.Resource {
	case "validatingwebhookconfigurations", "mutatingwebhookconfigurations", "secrets":
		return strings.HasPrefix(w.Name, prefix+"-")
	}
	return false
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// slots number the operators that run at a time: one that is started when another has ended, or crashed, takes its place, and the
// configurations that it has left.
type slots struct {
	mu    sync.Mutex
	taken []bool
}

func (s *slots) take() (slot int, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot = slices.Index(s.taken, false)
	if slot < 0 {
		slot, s.taken = len(s.taken), append(s.taken, false)
	}
	s.taken[slot] = true
	return slot, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken[slot] = false
	}
}

// unserved is a webhook server that nobody calls.
type unserved struct{ err error }

// Start waits for the end.
func (u *unserved) Start(ctx context.Context) error {
	if u.err != nil {
		return u.err
	}
	<-ctx.Done()
	return nil
}

func (*unserved) NeedLeaderElection() bool        { return false }
func (*unserved) Register(string, http.Handler)   {}
func (*unserved) StartedChecker() healthz.Checker { return healthz.Ping }
func (*unserved) WebhookMux() *http.ServeMux      { return http.NewServeMux() }
