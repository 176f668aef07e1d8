package guide

import (
	"bytes"
	"context"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// This file contains the code of docs/deployment.md.

func production(scheme *runtime.Scheme) ctrl.Options {
	return ctrl.Options{
		Scheme:                        scheme,
		HealthProbeBindAddress:        ":8081", // /healthz and /readyz
		Metrics:                       server.Options{BindAddress: ":8080"},
		LeaderElection:                true,
		LeaderElectionID:              "databases.example.com",
		LeaderElectionReleaseOnCancel: true, // the next leader starts without waiting; the program must exit when Start returns
		GracefulShutdownTimeout:       new(30 * time.Second),
	}
}

const deploymentPage = "../../docs/deployment.md"

// manifests returns the manifests of a page by their kinds and names.
func manifests(t *testing.T, page string) map[string]*unstructured.Unstructured {
	t.Helper()
	found := map[string]*unstructured.Unstructured{}
	for _, s := range steps(t, page) {
		if s.Language != "yaml" {
			continue
		}
		obj := &unstructured.Unstructured{}
		if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(s.Text)), 4096).Decode(obj); err != nil {
			t.Fatal(err)
		}
		found[obj.GetKind()+" "+obj.GetName()] = obj
	}
	return found
}

// The API server accepts the manifests and knows all of their fields.
func TestDeploymentPage_ManifestsAreAccepted(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs an API server")
	}
	g := NewWithT(t)
	objects := manifests(t, deploymentPage)
	g.Expect(objects).To(HaveLen(6))
	g.Expect(objects).To(HaveKey("Deployment databases"))
	expectAccepted(t, g, "databases-system", objects)
}

// expectAccepted checks that the API server accepts objects unchanged, and that it rejects an unknown field.
func expectAccepted(t *testing.T, g *WithT, in string, objects map[string]*unstructured.Unstructured) {
	t.Helper()
	k8s, err := client.New(cfg, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	strict := client.WithFieldValidation(k8s, metav1.FieldValidationStrict)
	namespace(g, k8s, in)
	for name, obj := range objects {
		g.Expect(strict.Create(t.Context(), obj.DeepCopy(), client.DryRunAll)).To(Succeed(), name)
		broken := obj.DeepCopy()
		g.Expect(unstructured.SetNestedField(broken.Object, "x", "nonsense")).To(Succeed())
		g.Expect(strict.Create(t.Context(), broken, client.DryRunAll)).To(MatchError(ContainSubstring("unknown field")), name)
	}
}

func namespace(g *WithT, k8s client.Client, name string) {
	ns := &unstructured.Unstructured{}
	ns.SetAPIVersion("v1")
	ns.SetKind("Namespace")
	ns.SetName(name)
	if err := k8s.Create(context.Background(), ns); !apierrors.IsAlreadyExists(err) {
		g.Expect(err).NotTo(HaveOccurred())
	}
}

// An operator with only the permissions on the page handles an object, posts Events and becomes the leader. Its log
// contains no Forbidden error.
func TestDeploymentPage_PermissionsAreSufficient(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs an API server")
	}
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(patience)
	k8s := installDatabases(t, g)
	namespace(g, k8s, "databases-system")
	for name, obj := range manifests(t, deploymentPage) {
		if strings.Contains(name, "Role") {
			obj = obj.DeepCopy()
			g.Expect(k8s.Create(t.Context(), obj)).To(Succeed(), name)
			t.Cleanup(func() { g.Expect(k8s.Delete(context.Background(), obj)).To(Succeed()) })
		}
	}
	logged := &lines{}
	stopped := startRestricted(t, g, logged)

	obj := newDatabase("rights", nil)
	obj.SetFinalizers(nil)
	g.Expect(k8s.Create(t.Context(), obj)).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(k8s.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)).To(Succeed())
		address, _, _ := unstructured.NestedString(obj.Object, "status", "address")
		g.Expect(address).To(Equal("10.0.0.10"))
		g.Expect(obj.GetFinalizers()).To(HaveLen(1))
		g.Expect(maps.Keys(obj.GetAnnotations())).To(ContainElement("kopf.zalando.org/last-handled-configuration"))
	}).Should(Succeed())
	g.Expect(k8s.Delete(t.Context(), obj)).To(Succeed())
	g.Eventually(func() bool {
		return apierrors.IsNotFound(k8s.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
	}).Should(BeTrue())
	events := &unstructured.UnstructuredList{}
	events.SetAPIVersion("events.k8s.io/v1")
	events.SetKind("EventList")
	g.Eventually(func(g Gomega) {
		g.Expect(k8s.List(t.Context(), events)).To(Succeed())
		g.Expect(events.Items).To(ContainElement(HaveField("Object", HaveKeyWithValue("reason", "Provisioned"))))
	}).Should(Succeed())
	coreEvents := &unstructured.UnstructuredList{} // client-go posts leader election Events to the core API
	coreEvents.SetAPIVersion("v1")
	coreEvents.SetKind("EventList")
	g.Eventually(func(g Gomega) {
		g.Expect(k8s.List(t.Context(), coreEvents, client.InNamespace("databases-system"))).To(Succeed())
		g.Expect(coreEvents.Items).To(ContainElement(HaveField("Object", HaveKeyWithValue("reason", "LeaderElection"))))
	}).Should(Succeed())
	stopped()
	g.Expect(logged.all()).To(ContainSubstring(`"Handled"`), "the log must contain handled objects")
	g.Expect(logged.all()).NotTo(ContainSubstring("orbidden"))
}

// startRestricted runs an operator as the service account of the page. It returns a function that stops it.
func startRestricted(t *testing.T, g *WithT, logged *lines) (stop func()) {
	config := rest.CopyConfig(cfg)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:databases-system:databases", Groups: []string{"system:authenticated"},
	}
	restricted, err := client.New(config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	lease := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}}
	g.Eventually(func() bool { // the authorizer of the API server receives new roles through a watch
		lists := unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "DatabaseList"}}
		return client.IgnoreNotFound(restricted.Get(t.Context(), client.ObjectKey{Namespace: "databases-system", Name: "databases.example.com"}, lease)) == nil &&
			restricted.List(t.Context(), &lists) == nil
	}).Should(BeTrue())
	skipNames := true
	options := production(runtime.NewScheme())
	options.Logger = funcr.New(func(prefix, args string) { logged.add(prefix + args) }, funcr.Options{})
	options.HealthProbeBindAddress, options.Metrics.BindAddress = "0", "0" // other tests may use the ports of the page
	options.LeaderElectionNamespace = "databases-system"                   // in a pod, the manager detects the namespace
	options.Controller.SkipNameValidation = &skipNames
	mgr, err := ctrl.NewManager(config, options)
	g.Expect(err).NotTo(HaveOccurred())
	databases := kopf.For(kopf.Unstructured(databaseKind)).
		OnCreate("provision", func(ctx context.Context, req *kopf.Request[*unstructured.Unstructured]) error {
			req.Eventf("Normal", "Provisioned", "Provision", "Database provisioned")
			return ensureDatabase(ctx, req)
		}).
		OnDelete("drop", func(context.Context, *kopf.Request[*unstructured.Unstructured]) error { return nil })
	g.Expect(kopf.SetupWithManager(mgr, databases)).To(Succeed())
	ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), options.Logger))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return func() {
		cancel()
		g.Expect(<-ended).To(Succeed())
	}
}

// lines collects log lines.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(line + "\n")
}

func (l *lines) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
