package kopftest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// withAdmission is for the admission handlers of a manager: they are called by the server of an Environment, and in memory they are not served. It
// changes nothing where the test has a webhook server of its own, or has made the cluster by hand.
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
		t.Fatalf("kopftest: there is no port for admission handlers: %v", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	options.WebhookServer = webhook.NewServer(webhook.Options{Host: loopback, Port: port})

	slot, release := c.webhookSlots.take()
	o.admissionManager = &admissionManager{cluster: c, slot: slot, port: port}
	t.Cleanup(func() { o.admissionManager.remove(t) })
	return func(mgr manager.Manager) manager.Manager {
		o.admissionManager.Manager = mgr
		return o.admissionManager
	}, release
}

const loopback = "127.0.0.1"

// An managerWithoutAdmission manager has nobody call the admission handlers of its operators.
type managerWithoutAdmission struct{ manager.Manager }

// AdmissionOptions has no options.
func (*managerWithoutAdmission) AdmissionOptions() *webhooks.Options { return nil }

// A served manager has the API server call the admission handlers of its operators on this machine.
type admissionManager struct {
	manager.Manager
	cluster    *Cluster
	slot, port int
	operators  atomic.Int64
}

// AdmissionOptions looks after certificates and configurations, which go with the operator.
func (s *admissionManager) AdmissionOptions() *webhooks.Options {
	options := &webhooks.Options{
		Name:           s.name(s.operators.Add(1)),
		Configurations: webhooks.Managed,
		Exit:           webhooks.RemoveOnExit,
		Certificates:   webhooks.SelfManaged{SecretName: s.name(0)},
		Namespace:      metav1.NamespaceSystem, // so that operators that are tested do not see the Secret
		ClientConfig:   admissionregistrationv1.WebhookClientConfig{URL: new(s.url())},
	}
	if s.cluster.Namespace != "" {
		options.Namespaces = []string{s.cluster.Namespace}
	}
	return options
}

// name is that of what belongs to an operator; with 0, to all of them. The next manager in the slot has the same ones.
func (s *admissionManager) name(operator int64) string {
	return fmt.Sprintf("%s%d-%d.%s.test", prefix, s.slot, operator, cmp.Or(s.cluster.Namespace, metav1.NamespaceDefault))
}

// prefix begins the names of what is made for admission handlers to be served.
const prefix = "kopftest-"

// remove takes away what a crash has left, and others would be refused for.
func (s *admissionManager) remove(t testing.TB) {
	t.Helper()
	for n := range s.operators.Load() {
		for _, obj := range s.configurations(n + 1) {
			if err := s.cluster.Client.Delete(context.WithoutCancel(t.Context()), obj); client.IgnoreNotFound(err) != nil {
				t.Errorf("kopftest: removing the webhook configurations of the operator: %v", err)
			}
		}
	}
}

// left tells of operators that have not yet written where they are to be called; they do it at once for both kinds of handlers.
func (s *admissionManager) left(ctx context.Context) (string, error) {
	for n := range s.operators.Load() {
		told := false
		for _, obj := range s.configurations(n + 1) {
			if err := s.cluster.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj); client.IgnoreNotFound(err) != nil {
				return "", err
			}
			text, err := obj.MarshalJSON()
			if err != nil {
				return "", err
			}
			told = told || strings.Contains(string(text), s.url()+"/") // and not where one has crashed
		}
		if !told {
			return "it has not told the API server of its admission handlers yet", nil
		}
	}
	return "", nil
}

func (s *admissionManager) url() string { return fmt.Sprintf("https://%s:%d", loopback, s.port) }

// configurations are those of an operator, without their Go types: the scheme of the test need not know them.
func (s *admissionManager) configurations(operator int64) (both []*unstructured.Unstructured) {
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(kind))
		obj.SetName(s.name(operator))
		both = append(both, obj)
	}
	return both
}

// isAdmissionSetup tells what is written for admission handlers to be served.
func isAdmissionSetup(w Write) bool {
	switch w.Resource {
	case "validatingwebhookconfigurations", "mutatingwebhookconfigurations":
		return strings.HasPrefix(w.Name, prefix)
	case "secrets":
		return w.Namespace == metav1.NamespaceSystem && strings.HasPrefix(w.Name, prefix)
	}
	return false
}

// webhookSlots number the managers that run at a time: one that is started when another has ended, or crashed, takes its place, and the
// configurations that it has left.
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
