package webhooks_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

func get(t *testing.T, obj client.Object) error {
	return k8s.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
}

// ADM-25, ADM-26, ADM-27, ADM-29, SE-33, SET-27: the operator creates the configuration for its handlers. It keeps
// entries of other clients, restores its own entries, and removes entries of earlier versions.
func TestManaged_Entries(t *testing.T) {
	t.Parallel() // the test mostly waits
	needServer(t)
	g, ctx := NewWithT(t), t.Context()
	op := start(t, operatorConfig{hooks: []webhooks.Hook{validate(accept), webhooks.Validating(&v1.Widget{}, "w", accept)}})
	name := op.name
	g.Expect(entryNames(name)).To(ConsistOf("v."+name, "w."+name))
	g.Expect(apierrors.IsNotFound(get(t, emptyConfigurations(name)[1]))).To(BeTrue(), "want no configuration without mutating handlers")

	// Add an entry of another client.
	foreign := validatingEntries(name)[0]
	foreign.Name = "foreign.example.com"
	foreign.FailurePolicy = new(admissionregistrationv1.Ignore)
	live := emptyConfigurations(name)[0].(*admissionregistrationv1.ValidatingWebhookConfiguration)
	g.Expect(get(t, live)).To(Succeed())
	live.Webhooks = append(live.Webhooks, foreign)
	g.Expect(k8s.Update(ctx, live)).To(Succeed())
	g.Consistently(func() []string { return entryNames(name) }).Should(HaveLen(3))

	// The operator restores its own entries after a delay.
	live.Webhooks[0].Rules[0].Operations = []admissionregistrationv1.OperationType{"DELETE"}
	live.Webhooks = live.Webhooks[:1]
	g.Expect(k8s.Update(ctx, live)).To(Succeed())
	g.Eventually(func(g Gomega) {
		entries := validatingEntries(name)
		g.Expect(entries).To(HaveLen(2))
		g.Expect(entries[0].Rules[0].Operations).To(HaveExactElements(admissionregistrationv1.OperationAll))
	}).Should(Succeed())
	// The operator also recreates a deleted configuration.
	g.Expect(k8s.Delete(ctx, emptyConfigurations(name)[0])).To(Succeed())
	g.Eventually(func() []string { return entryNames(name) }).Should(HaveLen(2))
	version := func() string {
		live := emptyConfigurations(name)[0]
		g.Expect(get(t, live)).To(Succeed())
		return live.GetResourceVersion()
	}
	before := version()
	g.Consistently(version).Should(Equal(before), "want no unnecessary writes")
	g.Expect(get(t, live)).To(Succeed())
	live.Webhooks = append(live.Webhooks, foreign)
	g.Expect(k8s.Update(ctx, live)).To(Succeed())
	g.Expect(op.stop()).To(Succeed())
	g.Expect(entryNames(name)).To(HaveLen(3), "want the entries after the shutdown")

	// Start a version without one of the handlers, and then a version without handlers.
	next := start(t, operatorConfig{ns: op.ns, name: name, hooks: []webhooks.Hook{validate(accept)}, skipWait: true})
	g.Eventually(func() []string { return entryNames(name) }).Should(ConsistOf("v."+name, "foreign.example.com"))
	g.Expect(next.stop()).To(Succeed())
	last := start(t, operatorConfig{ns: op.ns, name: name, skipWait: true})
	g.Eventually(func() []string { return entryNames(name) }).Should(ConsistOf("foreign.example.com"))
	g.Expect(last.stop()).To(Succeed())
}

// ADM-28, ADM-29: RemoveOnExit keeps only persistent handlers and removes an empty configuration.
func TestManaged_RemoveOnExit(t *testing.T) {
	needServer(t)
	g := NewWithT(t)
	op := start(t, operatorConfig{
		options: func(o *webhooks.Options) { o.Exit = webhooks.RemoveOnExit },
		hooks: []webhooks.Hook{
			validate(accept), webhooks.Validating(&v1.Widget{}, "w", accept, webhooks.Persistent(), webhooks.FailurePolicy("Ignore")),
			mutate(accept),
		},
	})
	g.Expect(op.stop()).To(Succeed())
	g.Expect(entryNames(op.name)).To(ConsistOf("w." + op.name))
	g.Expect(apierrors.IsNotFound(get(t, emptyConfigurations(op.name)[1]))).To(BeTrue())
}

// The webhook server continues to respond for a while after its entries are removed. The entries are removed even if
// the CA file cannot be read.
func TestManaged_ServesUntilEntriesAreRemoved(t *testing.T) {
	t.Parallel() // the test mostly waits
	needServer(t)
	g, dir := NewWithT(t), certificateFiles(t)
	op := start(t, operatorConfig{
		certDir: dir, hooks: []webhooks.Hook{validate(accept)},
		options: func(o *webhooks.Options) {
			o.Exit, o.Certificates = webhooks.RemoveOnExit, webhooks.Files{CAFile: filepath.Join(dir, "ca.crt")}
		},
	})
	c := keepAliveClient(op.name, 1)
	defer c.CloseIdleConnections()
	g.Expect(os.Remove(filepath.Join(dir, "ca.crt"))).To(Succeed())
	existed := time.Now() // the last time at which the entries certainly existed
	stopped := make(chan error, 1)
	go func() { stopped <- op.stop() }()
	g.Eventually(func() []string {
		now := time.Now()
		names := entryNames(op.name)
		if len(names) > 0 {
			existed = now
		}
		return names
	}).WithPolling(time.Millisecond).Should(BeEmpty(), op.log.String)
	g.Eventually(func() error {
		c.CloseIdleConnections()
		return post(c, fmt.Sprintf("https://127.0.0.1:%d/hooks", op.port))
	}).WithPolling(time.Millisecond).ShouldNot(Succeed())
	g.Expect(time.Since(existed)).To(BeNumerically(">", 500*time.Millisecond), "want responses after the entries are removed")
	g.Expect(<-stopped).To(Succeed())
}

// ADM-20, ADM-42: a kind that is created later is configured when it is created. With Plural, it is configured before.
func TestManaged_KindCreatedLater(t *testing.T) {
	t.Parallel() // the test mostly waits
	needServer(t)
	g, ctx := NewWithT(t), t.Context()
	gvk := v1.GroupVersion.WithKind("Late")
	late := &unstructured.Unstructured{}
	late.SetGroupVersionKind(gvk)
	deny := func(context.Context, *looseRequest) error { return webhooks.Deny(0, "", "too late") }
	op := start(t, operatorConfig{skipWait: true, hooks: []webhooks.Hook{
		webhooks.Validating(late, "late", deny), webhooks.Mutating(late, "early", deny, webhooks.Plural("lates")),
	}})
	g.Eventually(func() []string { return entryNames(op.name) }).Should(ConsistOf("early." + op.name))
	g.Expect(apierrors.IsNotFound(get(t, emptyConfigurations(op.name)[0]))).To(BeTrue(), "want no empty configuration")
	definition := crd(gvk)
	g.Expect(k8s.Create(ctx, definition)).To(Succeed())
	t.Cleanup(func() { must(k8s.Delete(context.Background(), definition)) })
	g.Eventually(func() []string { return entryNames(op.name) }).Should(ConsistOf("early."+op.name, "late."+op.name))
	late.SetName("a")
	late.SetNamespace(op.ns)
	g.Eventually(func() error { return k8s.Create(ctx, late.DeepCopy()) }).Should(MatchError(ContainSubstring("too late")))
}

// ADM-24: the operator writes only the caBundle into static manifests.
func TestInjected_CABundle(t *testing.T) {
	t.Parallel() // the test mostly waits
	needServer(t)
	g, ctx := NewWithT(t), t.Context()
	hooks := []webhooks.Hook{validate(func(context.Context, *widgetRequest) error { return webhooks.Deny(0, "", "static") })}
	var options webhooks.Options
	op := start(t, operatorConfig{skipWait: true, hooks: hooks, options: func(o *webhooks.Options) {
		o.Configurations = webhooks.Injected
		options = *o
	}})
	g.Eventually(op.log.String).Should(ContainSubstring("apply the manifests"))
	g.Consistently(func() []string { return entryNames(op.name) }).WithTimeout(3 * time.Second).Should(BeEmpty())
	g.Expect(strings.Count(op.log.String(), "apply the manifests")).To(Equal(1), "want one log line")
	objects, err := webhooks.Manifests(scheme, options, hooks...)
	g.Expect(err).NotTo(HaveOccurred())
	static := objects[0].(*admissionregistrationv1.ValidatingWebhookConfiguration)
	static.Webhooks[0].TimeoutSeconds = new(int32(7))
	g.Expect(k8s.Create(ctx, static)).To(Succeed())
	g.Eventually(func() error { return k8s.Create(ctx, widget(op.ns, "a", 1), client.DryRunAll) }).Should(MatchError(ContainSubstring("static")))
	g.Expect(*validatingEntries(op.name)[0].TimeoutSeconds).To(BeEquivalentTo(7))

	// Another writer of the caBundle causes few writes and does not prevail.
	ours := string(validatingEntries(op.name)[0].ClientConfig.CABundle)
	otherCA, _, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	g.Expect(err).NotTo(HaveOccurred())
	restored := 0
	for began := time.Now(); time.Since(began) < 3*time.Second; <-time.After(20 * time.Millisecond) {
		g.Expect(get(t, static)).To(Succeed())
		if string(static.Webhooks[0].ClientConfig.CABundle) != ours {
			continue
		}
		restored++
		static.Webhooks[0].ClientConfig.CABundle = otherCA
		g.Expect(k8s.Update(ctx, static)).To(Succeed())
	}
	g.Expect(restored).To(BeNumerically("<=", 2))
	g.Eventually(func() string { return string(validatingEntries(op.name)[0].ClientConfig.CABundle) }).Should(Equal(ours))
}

// ADM-25: the operator tolerates an API server that does not respond when the operator becomes the leader.
func TestManaged_APIServerDownAtStartup(t *testing.T) {
	t.Parallel() // the test mostly waits
	needServer(t)
	g := NewWithT(t)
	var unreachable atomic.Bool
	config := rest.CopyConfig(cp.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripFunc(func(r *http.Request) (*http.Response, error) {
			if unreachable.Load() {
				return nil, errors.New("connection refused")
			}
			return next.RoundTrip(r)
		})
	})
	op := newOperator(t, operatorConfig{config: config, hooks: []webhooks.Hook{validate(accept)}})
	unreachable.Store(true)
	wait := sync.WaitGroup{}
	defer wait.Wait()
	wait.Go(func() {
		defer unreachable.Store(false)
		g.Eventually(op.log.String).Should(ContainSubstring("Failed to set up the watch"))
	})
	op.run(t)
	op.awaitEntries(t, 1)
}

// ADM-24: with unmanaged configurations, the operator sends no requests and needs no permissions.
func TestUnmanaged_SendsNoRequests(t *testing.T) {
	needServer(t)
	g := NewWithT(t)
	dir, ns := certificateFiles(t), newNamespace(t)
	powerless, requests := impersonate("system:serviceaccount:"+ns+":powerless"), &recorder{}
	powerless.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripFunc(func(r *http.Request) (*http.Response, error) {
			requests.add(r.Method + " " + r.URL.Path)
			return next.RoundTrip(r)
		})
	})
	op := start(t, operatorConfig{
		ns: ns, certDir: dir, skipWait: true, config: powerless,
		hooks:   []webhooks.Hook{validate(accept), mutate(accept)},
		options: func(o *webhooks.Options) { o.Configurations, o.Certificates = webhooks.Unmanaged, webhooks.Files{} },
	})
	g.Consistently(requests.all).Should(BeEmpty())
	g.Expect(op.stop()).To(Succeed())
	g.Expect(entryNames(op.name)).To(BeEmpty())
	g.Expect(requests.all()).To(BeEmpty())
}

// roundTripFunc implements http.RoundTripper.
type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// certificateFiles returns a directory with a certificate for this machine.
func certificateFiles(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	must(err)
	for name, text := range map[string][]byte{"tls.crt": certificate, "tls.key": key, "ca.crt": certificate} {
		must(os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	return dir
}

// ADM-47, ADM-48, ADM-49: the operator reads certificates from files and updates the caBundle when the CA file changes.
func TestFiles_CABundle(t *testing.T) {
	t.Parallel() // the test mostly waits
	needServer(t)
	g := NewWithT(t)
	dir := certificateFiles(t)
	certificate, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	g.Expect(err).NotTo(HaveOccurred())
	op := start(t, operatorConfig{
		certDir: dir,
		hooks:   []webhooks.Hook{validate(func(context.Context, *widgetRequest) error { return webhooks.Deny(0, "", "filed") })},
		options: func(o *webhooks.Options) { o.Certificates = webhooks.Files{CAFile: filepath.Join(dir, "ca.crt")} },
	})
	g.Eventually(func() error { return k8s.Create(t.Context(), widget(op.ns, "a", 1), client.DryRunAll) }).Should(MatchError(ContainSubstring("filed")))
	bundle := validatingEntries(op.name)[0].ClientConfig.CABundle
	g.Expect(strings.TrimSpace(string(certificate))).To(Equal(string(bundle)))
	other, _, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(dir, "ca.crt"), append(certificate, other...), 0o600)).To(Succeed())
	g.Eventually(func() int { return strings.Count(string(validatingEntries(op.name)[0].ClientConfig.CABundle), "BEGIN") }).
		WithTimeout(time.Minute).Should(Equal(4))
}

// ADM-49: a removed CA stays trusted for some minutes, because replicas receive new files at different times.
func TestFiles_RemovedCAIsRetained(t *testing.T) {
	g, path, now := NewWithT(t), filepath.Join(t.TempDir(), "ca.crt"), time.Now()
	bundle := webhooks.CABundleOf(path, func() time.Time { return now })
	read := func() string {
		text, err := bundle()
		g.Expect(err).NotTo(HaveOccurred())
		return string(text)
	}
	one, err := os.ReadFile(filepath.Join(certificateFiles(t), "ca.crt"))
	g.Expect(err).NotTo(HaveOccurred())
	two, err := os.ReadFile(filepath.Join(certificateFiles(t), "ca.crt"))
	g.Expect(err).NotTo(HaveOccurred())
	first, second := strings.TrimSpace(string(one)), strings.TrimSpace(string(two))

	_, err = bundle()
	g.Expect(err).To(MatchError(ContainSubstring("reading Files.CAFile")))
	must(os.WriteFile(path, one, 0o600))
	g.Expect(read()).To(Equal(first))
	now = now.Add(time.Hour)
	g.Expect(read()).To(Equal(first))
	must(os.WriteFile(path, two, 0o600))
	now = now.Add(10 * time.Second)
	g.Expect(read()).To(Equal(second + "\n" + first))
	now = now.Add(4 * time.Minute)
	g.Expect(read()).To(Equal(second + "\n" + first))
	must(os.WriteFile(path, []byte("x"), 0o600))
	_, err = bundle()
	g.Expect(err).To(MatchError(ContainSubstring("parsing Files.CAFile")))
	must(os.WriteFile(path, two, 0o600))
	now = now.Add(time.Minute)
	g.Expect(read()).To(Equal(second))
}

// A replica that never becomes the leader releases its reservations.
func TestReservations_ReleasedWithoutLeadership(t *testing.T) {
	needServer(t)
	g, ns := NewWithT(t), newNamespace(t)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "leader"}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: new("another"), LeaseDurationSeconds: new(int32(3600)),
		AcquireTime: new(metav1.NowMicro()), RenewTime: new(metav1.NowMicro()),
	}}
	g.Expect(k8s.Create(t.Context(), lease)).To(Succeed())
	mgr, err := ctrl.NewManager(cp.Config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
		WebhookServer:  webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: freePort()}),
		LeaderElection: true, LeaderElectionID: lease.Name, LeaderElectionNamespace: ns,
	})
	g.Expect(err).NotTo(HaveOccurred())
	for i, hooks := range [][]webhooks.Hook{{validate(accept)}, nil} { // the second operator only removes entries
		g.Expect(webhooks.New(mgr, webhooks.Options{
			Name: fmt.Sprint(ns, i, ".example.com"), Configurations: webhooks.Managed, Namespace: ns, Certificates: webhooks.SelfManaged{},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1/")},
		}).Add(hooks...).SetupWithManager()).To(Succeed())
	}
	g.Expect(webhooks.Reservations(mgr)).To(Equal(3))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	g.Eventually(func() string { return servedCertificate(t, ns) }).ShouldNot(BeEmpty(), "want a running replica")
	cancel()
	g.Expect(<-ended).To(Succeed())
	g.Expect(webhooks.Reservations(mgr)).To(BeZero())
}

// SetupWithManager returns an error for a registered path and for a custom webhook server.
func TestSetupWithManager_Errors(t *testing.T) {
	needServer(t)
	g := NewWithT(t)
	op := newOperator(t, operatorConfig{hooks: []webhooks.Hook{validate(accept)}})
	g.Expect(webhooks.For(op.mgr, &v1.Widget{}).Validate("hooks/v", accept).Complete()).
		To(MatchError(ContainSubstring("rename the handler or add all hooks to one server")))
	g.Expect(webhooks.For(op.mgr, &v1.Widget{}).Validate("w", accept).Mutate("m", accept, webhooks.TimeoutSeconds(31)).Complete()).
		To(MatchError(And(ContainSubstring(`Mutate("m")`), ContainSubstring("TimeoutSeconds"))))
	g.Expect(webhooks.For(op.mgr, &v1.Widget{}).Validate("other", accept).Complete()).To(Succeed())
	g.Expect(webhooks.For(op.mgr, &v1.Widget{}).Complete()).To(Succeed(), "want no error without handlers")
	g.Expect(op.server.Check()).To(Succeed())

	// Two servers of one manager can conflict about entries or certificates.
	other := func(change func(*webhooks.Options)) error {
		o := webhooks.Options{
			Name: op.name, Configurations: webhooks.Managed, Namespace: op.ns, Certificates: webhooks.SelfManaged{},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1/others")},
		}
		change(&o)
		return webhooks.New(op.mgr, o).Add(validate(accept)).SetupWithManager()
	}
	g.Expect(other(func(*webhooks.Options) {})).To(MatchError(And(
		ContainSubstring(op.name), ContainSubstring(`"kopf-webhooks"`), ContainSubstring("another Name or FieldOwner"))))
	g.Expect(webhooks.New(op.mgr, webhooks.Options{
		Name: op.name, Configurations: webhooks.Managed,
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1/")},
	}).SetupWithManager()).To(MatchError(ContainSubstring("another server of this manager")), "want an error, because a server without hooks would remove the entries")
	owner := func(o *webhooks.Options) { o.FieldOwner = "other" }
	g.Expect(other(func(o *webhooks.Options) {
		owner(o)
		o.Certificates = webhooks.SelfManaged{SecretName: "other"}
	})).To(MatchError(And(ContainSubstring("Secret "+op.ns+"/webhook-certificates and"), ContainSubstring("/other, but"))))
	g.Expect(other(func(o *webhooks.Options) {
		owner(o)
		o.Certificates = nil
	})).To(MatchError(ContainSubstring("and Files, but")))
	g.Expect(other(owner)).To(Succeed(), "want no reservations of failed servers")
}
