package webhooks_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var (
	cp     *controlplane.ControlPlane
	k8s    client.Client // client without a cache
	scheme = runtime.NewScheme()

	widgetGVK = v1.GroupVersion.WithKind("Widget")
)

func TestMain(m *testing.M) {
	flag.Parse()
	must(clientgoscheme.AddToScheme(scheme))
	must(apiextensionsv1.AddToScheme(scheme))
	must(v1.AddToScheme(scheme))
	if os.Getenv(childEnv) != "" {
		os.Exit(runReplica())
	}
	ctrl.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(500 * time.Millisecond)
	known := goleak.IgnoreCurrent()
	code := m.Run()
	must(cp.Stop())
	if code == 0 {
		code = checkGoroutines(known)
	}
	os.Exit(code)
}

// checkGoroutines waits until the goroutines of all operators have ended.
func checkGoroutines(known goleak.Option) int {
	var err error
	for range 10 { // each iteration waits for half a second
		if err = goleak.Find(known); err == nil {
			return 0
		}
	}
	fmt.Println("leaked goroutines:", err)
	return 1
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

var startOnce sync.Once

// needServer starts an API server for all tests.
func needServer(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("needs a control plane")
	}
	startOnce.Do(func() {
		var err error
		cp, err = controlplane.Start(controlplane.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd(widgetGVK)}})
		must(err)
		k8s, err = client.New(cp.Config, client.Options{Scheme: scheme})
		must(err)
	})
	if cp == nil {
		tb.Fatal("the control plane failed to start")
	}
}

// crd returns a CRD that preserves all fields and has the subresources status and scale.
func crd(gvk schema.GroupVersionKind) *apiextensionsv1.CustomResourceDefinition {
	lower := strings.ToLower(gvk.Kind)
	loose := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: lower + "s." + gvk.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: gvk.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind: gvk.Kind, ListKind: gvk.Kind + "List", Plural: lower + "s", Singular: lower,
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: gvk.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": loose, "status": loose},
				}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
					Scale: &apiextensionsv1.CustomResourceSubresourceScale{
						SpecReplicasPath: ".spec.size", StatusReplicasPath: ".status.size",
					},
				},
			}},
		},
	}
}

// newNamespace creates a namespace for one test.
func newNamespace(tb testing.TB) string {
	tb.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	must(k8s.Create(context.Background(), ns))
	return ns.Name
}

// operator is a manager with a webhook server on this machine.
type operator struct {
	mgr    manager.Manager
	server *webhooks.Server
	ns     string
	name   string // name of the configurations
	port   int
	log    *logBuffer
	stop   func() error
}

type operatorConfig struct {
	ns       string
	config   *rest.Config
	options  func(*webhooks.Options)
	port     int
	name     string
	hooks    []webhooks.Hook
	certDir  string
	skipWait bool // start does not wait until the configurations exist
}

// start runs an operator for one namespace with self-managed certificates until the test ends.
func start(tb testing.TB, c operatorConfig) *operator {
	tb.Helper()
	op := newOperator(tb, c)
	op.run(tb)
	if !c.skipWait {
		op.awaitEntries(tb, len(c.hooks))
	}
	return op
}

func newOperator(tb testing.TB, c operatorConfig) *operator {
	tb.Helper()
	needServer(tb)
	op := &operator{ns: c.ns, name: c.name, port: c.port, log: &logBuffer{}}
	if op.ns == "" {
		op.ns = newNamespace(tb)
	}
	if op.name == "" {
		op.name = op.ns + ".example.com"
	}
	if op.port == 0 {
		op.port = freePort()
	}
	config := c.config
	if config == nil {
		config = cp.Config
	}
	var err error
	op.mgr, err = ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Logger: op.log.logger(),
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: op.port, CertDir: c.certDir}),
	})
	must(err)
	options := webhooks.Options{
		Name: op.name, Configurations: webhooks.Managed, Namespaces: []string{op.ns}, Namespace: op.ns,
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new(fmt.Sprintf("https://127.0.0.1:%d/hooks/", op.port))},
		Certificates: webhooks.SelfManaged{},
	}
	if c.options != nil {
		c.options(&options)
	}
	op.server = webhooks.New(op.mgr, options).Add(c.hooks...)
	must(op.server.SetupWithManager())
	tb.Cleanup(func() {
		for _, kind := range emptyConfigurations(op.name) {
			must(client.IgnoreNotFound(k8s.Delete(context.Background(), kind)))
		}
	})
	return op
}

func (op *operator) run(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- op.mgr.Start(ctx) }()
	op.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	tb.Cleanup(func() {
		if err := op.stop(); err != nil {
			tb.Error(err)
		}
	})
	NewWithT(tb).Eventually(func() error {
		select {
		case err := <-done:
			done <- err
			return StopTrying("the manager stopped").Wrap(errors.Join(err, errors.New(op.log.String())))
		default:
			return op.server.Readyz(nil)
		}
	}).Should(Succeed())
}

// awaitEntries waits until the configurations have n entries. API servers apply them with a delay.
func (op *operator) awaitEntries(tb testing.TB, n int) {
	tb.Helper()
	NewWithT(tb).Eventually(func() []string { return entryNames(op.name) }).Should(HaveLen(n), op.log.String)
}

func emptyConfigurations(name string) []client.Object {
	return []client.Object{
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}},
	}
}

func entryNames(name string) (names []string) {
	for _, e := range validatingEntries(name) {
		names = append(names, e.Name)
	}
	for _, e := range mutatingEntries(name) {
		names = append(names, e.Name)
	}
	return names
}

func validatingEntries(name string) []admissionregistrationv1.ValidatingWebhook {
	obj := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	must(client.IgnoreNotFound(k8s.Get(context.Background(), client.ObjectKey{Name: name}, obj)))
	return obj.Webhooks
}

func mutatingEntries(name string) []admissionregistrationv1.MutatingWebhook {
	obj := &admissionregistrationv1.MutatingWebhookConfiguration{}
	must(client.IgnoreNotFound(k8s.Get(context.Background(), client.ObjectKey{Name: name}, obj)))
	return obj.Webhooks
}

// freePort returns a port outside the range of outgoing connections, so that they cannot use it.
func freePort() int {
	for {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(20000)))
		if err == nil {
			defer listener.Close()
			return listener.Addr().(*net.TCPAddr).Port
		}
	}
}

// logBuffer collects log lines.
type logBuffer struct {
	mu    sync.Mutex
	lines []string
}

func (l *logBuffer) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, prefix+" "+args)
	}, funcr.Options{})
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
