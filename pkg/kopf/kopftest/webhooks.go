package kopftest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// prepareAdmission prepares a manager so that an Environment's API server calls the operator's admission handlers. In memory, the operator
// doesn't serve them. The manager isn't changed if the test sets its own webhook server, or has created the Cluster without Memory and
// Environment.
func (o *Operator) prepareAdmission(t testing.TB, options *manager.Options) (host func(manager.Manager) manager.Manager, release func()) {
	c := o.cluster
	switch {
	case options.WebhookServer != nil, c.server == nil && c.webhookSlots == nil:
		return func(mgr manager.Manager) manager.Manager { return mgr }, func() {}
	case c.server != nil:
		return func(mgr manager.Manager) manager.Manager { return &managerWithoutAdmission{mgr} }, func() {}
	}
	listener, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatalf("kopftest: find a free port for admission handlers: %v", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	options.WebhookServer = webhook.NewServer(webhook.Options{Host: loopback, Port: port})

	slot, release := c.webhookSlots.take()
	o.admissionManager = &admissionManager{cluster: c, slot: slot, port: port}
	o.connection.servesAdmission = true
	t.Cleanup(func() { o.admissionManager.remove(t) })
	return func(mgr manager.Manager) manager.Manager {
		o.admissionManager.Manager = mgr
		return o.admissionManager
	}, release
}

const loopback = "127.0.0.1"

// A managerWithoutAdmission is a manager whose operators don't serve their admission handlers.
type managerWithoutAdmission struct{ manager.Manager }

// AdmissionOptions returns nil, so that the operator doesn't serve the handlers.
func (*managerWithoutAdmission) AdmissionOptions() *webhooks.Options { return nil }

// An admissionManager is a manager whose operators serve their admission handlers on this machine.
type admissionManager struct {
	manager.Manager
	cluster    *Cluster
	slot, port int
	operators  atomic.Int64
}

// AdmissionOptions returns options with which the operator manages its certificates and webhook configurations, and removes them when it
// stops.
func (s *admissionManager) AdmissionOptions() *webhooks.Options {
	options := &webhooks.Options{
		Name:           s.name(s.operators.Add(1)),
		Configurations: webhooks.Managed,
		Exit:           webhooks.RemoveOnExit,
		Certificates:   webhooks.SelfManaged{SecretName: s.name(0)},
		Namespace:      metav1.NamespaceSystem, // a namespace that operators under test don't watch
		ClientConfig:   admissionregistrationv1.WebhookClientConfig{URL: new(s.url())},
	}
	if s.cluster.Namespace != "" {
		options.Namespaces = []string{s.cluster.Namespace}
	}
	return options
}

// name returns the name of an operator's webhook configurations, or of the shared Secret if operator is 0. Later managers in the same slot
// use the same names.
func (s *admissionManager) name(operator int64) string {
	return fmt.Sprintf("%s%d-%d.%s.test", prefix, s.slot, operator, cmp.Or(s.cluster.Namespace, metav1.NamespaceDefault))
}

// prefix starts the names of webhook configurations and Secrets for admission handlers, and of the users of WithRights.
const prefix = "kopftest-"

// remove deletes the webhook configurations that a crash has left behind, because they would reject requests of later tests.
func (s *admissionManager) remove(t testing.TB) {
	t.Helper()
	for n := range s.operators.Load() {
		for _, obj := range s.configurations(n + 1) {
			if err := s.cluster.Client.Delete(context.WithoutCancel(t.Context()), obj); client.IgnoreNotFound(err) != nil {
				t.Errorf("kopftest: remove webhook configurations: %v", err)
			}
		}
	}
}

// pendingWork reports operators without a webhook configuration for this manager. An operator writes the configurations for both kinds of
// handlers at once.
func (s *admissionManager) pendingWork(ctx context.Context) (string, error) {
	for n := range s.operators.Load() {
		configured := false
		for _, obj := range s.configurations(n + 1) {
			if err := s.cluster.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj); client.IgnoreNotFound(err) != nil {
				return "", err
			}
			text, err := obj.MarshalJSON()
			if err != nil {
				return "", err
			}
			configured = configured || strings.Contains(string(text), s.url()+"/") // ignore entries of a crashed operator
		}
		if !configured {
			return "the webhook configurations are not written yet", nil
		}
	}
	return "", nil
}

func (s *admissionManager) url() string { return fmt.Sprintf("https://%s:%d", loopback, s.port) }

// configurations returns an operator's webhook configurations with only their kind and name. They are unstructured, because the test's
// scheme may lack their types.
func (s *admissionManager) configurations(operator int64) (both []*unstructured.Unstructured) {
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(kind))
		obj.SetName(s.name(operator))
		both = append(both, obj)
	}
	return both
}

// isAdmissionSetup reports whether a request is for the webhook configurations or the Secret of an admissionManager.
func isAdmissionSetup(r request, w Write, query url.Values) bool {
	name := w.Name
	if selector, err := fields.ParseSelector(query.Get("fieldSelector")); err == nil && name == "" {
		name, _ = selector.RequiresExactMatch("metadata.name") // of a list or watch
	}
	switch r.resource {
	case "validatingwebhookconfigurations", "mutatingwebhookconfigurations":
		return strings.HasPrefix(name, prefix)
	case "secrets":
		return strings.HasPrefix(name, prefix) && r.namespace == metav1.NamespaceSystem
	}
	return false
}

// webhookSlots assigns a number to each running manager. A manager that has stopped or crashed passes its number on to a later one,
// together with its webhook configurations.
type webhookSlots struct {
	mu    sync.Mutex
	taken []bool
}

func (s *webhookSlots) take() (slot int, release func()) {
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
