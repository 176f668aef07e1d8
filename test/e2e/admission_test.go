package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// A webhookHost is an address at which the API server reaches the admission handlers of one namespace.
type webhookHost struct {
	ns, name string
	port     int // port that the API server calls
	logs     *logRecorder
}

func newWebhookHost(ctx context.Context) *webhookHost {
	GinkgoHelper()
	ns := newNamespace(ctx)
	o := &webhookHost{ns: ns, name: ns + ".example.com", port: freePort(), logs: &logRecorder{}}
	// The cleanup runs after the operators have stopped, because a running operator would create the configurations again.
	DeferCleanup(func(ctx context.Context) {
		for _, configuration := range o.configurations() {
			Expect(client.IgnoreNotFound(k8s.Delete(ctx, configuration))).To(Succeed())
		}
	})
	return o
}

func freePort() int {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// manager creates a manager for the namespace, with a webhook server on this machine.
func (o *webhookHost) manager(port int, change func(*rest.Config, *manager.Options)) manager.Manager {
	GinkgoHelper()
	config := rest.CopyConfig(cp.Config)
	options := manager.Options{
		Scheme: scheme, Logger: o.logs.Logger(), Metrics: server.Options{BindAddress: "0"},
		Cache:         cache.Options{DefaultNamespaces: map[string]cache.Config{o.ns: {}}},
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port}),
	}
	if change != nil {
		change(config, &options)
	}
	mgr, err := manager.New(config, options)
	Expect(err).NotTo(HaveOccurred())
	return mgr
}

// runOperator runs an operator at the address until the end of the spec.
func (o *webhookHost) runOperator(change func(*rest.Config, *manager.Options), opts ...kopf.Option) *running {
	GinkgoHelper()
	mgr := o.manager(o.port, change)
	Expect(kopf.SetupWithManager(mgr, append(opts, o.options())...)).To(Succeed())
	return launch(mgr, o.logs)
}

// options returns options with managed configurations and certificates, at an address of this machine.
func (o *webhookHost) options() kopf.Option {
	return kopf.WithWebhooks(webhooks.Options{
		Name: o.name, Configurations: webhooks.Managed, Certificates: webhooks.SelfManaged{},
		Namespace: o.ns, Namespaces: []string{o.ns},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new(fmt.Sprintf("https://127.0.0.1:%d", o.port))},
	})
}

func (o *webhookHost) configurations() []client.Object {
	meta := metav1.ObjectMeta{Name: o.name}
	return []client.Object{
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta},
	}
}

// awaitCalls waits until a single request to the API server causes all of these calls.
func (o *webhookHost) awaitCalls(ctx context.Context, seen *calls, notes ...string) {
	GinkgoHelper()
	Eventually(func() []string {
		seen.clear()
		_ = k8s.Create(ctx, widget(o.ns, "probe"), client.DryRunAll)
		return seen.all()
	}).Should(ContainElements(notes))
	seen.clear()
}

// A warningRecorder is a client that records the warnings of the API server.
type warningRecorder struct {
	client.Client
	warnings calls
}

func (l *warningRecorder) HandleWarningHeader(_ int, _, text string) { l.warnings.notef("%s", text) }

func newWarningRecorder() *warningRecorder {
	GinkgoHelper()
	l := &warningRecorder{}
	config := rest.CopyConfig(cp.Config)
	config.WarningHandler = l
	var err error
	l.Client, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return l
}

var _ = Describe("Admission handlers of an operator", func() {
	type (
		W        = *v1.Widget
		admitted = webhooks.Request[W]
	)

	// paint sets the default color. checkSize denies sizes above 100, and warns about sizes above 50.
	paint := func(seen *calls) webhooks.Handler[W] {
		return func(_ context.Context, req *admitted) error {
			seen.notef("paint")
			if req.Object.Spec.Color == "" {
				req.Object.Spec.Color = "white"
			}
			return nil
		}
	}
	checkSize := func(seen *calls) webhooks.Handler[W] {
		return func(_ context.Context, req *admitted) error {
			seen.notef("check %s", req.Object.Spec.Color)
			switch size := req.Object.Spec.Size; {
			case req.Operation == admissionv1.Delete && req.Object.Labels["keep"] != "":
				return webhooks.Deny(http.StatusConflict, metav1.StatusReasonConflict, "the value must be kept")
			case req.Operation == admissionv1.Delete:
			case size > 100:
				return field.Invalid(field.NewPath("spec", "size"), size, "is more than 100")
			case size > 50:
				req.Warn("that is large")
			}
			return nil
		}
	}

	It("deny, warn and set defaults; creation handlers see the defaults (ADM-04, ADM-12, ADM-13)", func(ctx context.Context) {
		o, seen, reviews := newWebhookHost(ctx), &calls{}, &calls{}
		o.runOperator(nil, kopf.For(&v1.Widget{}).
			Mutate("paint", paint(reviews)).
			Validate("check", checkSize(reviews)).
			OnCreate("create", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("create %s", req.Object.Spec.Color)
				req.Object.Status.Phase = "Made"
				return nil
			}).
			OnDelete("delete", func(context.Context, *kopf.Request[W]) error { seen.notef("delete"); return nil }))
		o.awaitCalls(ctx, reviews, "paint", "check red")

		plain := &v1.Widget{ObjectMeta: metav1.ObjectMeta{Namespace: o.ns, Name: "plain"}, Spec: v1.WidgetSpec{Size: 51}}
		api := newWarningRecorder()
		Expect(api.Create(ctx, plain.DeepCopy(), client.DryRunAll)).To(Succeed())
		Expect(gone(ctx, plain)()).To(BeTrue())
		Expect(api.Create(ctx, plain)).To(Succeed())
		Expect(plain.Spec.Color).To(Equal("white"))
		Expect(api.warnings.all()).To(Equal([]string{"that is large", "that is large"}))
		handled(ctx, plain)
		Expect(seen.all()).To(Equal([]string{"create white"}))
		Expect(reviews.all()).To(ContainElement("check white"), "validation must run after mutation")

		huge := widget(o.ns, "huge")
		huge.Spec.Size = 101
		err := k8s.Create(ctx, huge)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("is more than 100")))
		Expect(err.(apierrors.APIStatus).Status().Details.Causes).To(ConsistOf(HaveField("Field", "spec.size")))

		edit(ctx, plain, func(w W) { w.Labels = map[string]string{"keep": "yes"} })
		err = k8s.Delete(ctx, plain)
		Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("the value must be kept")))
		edit(ctx, plain, func(w W) { w.Labels = nil })
		remove(ctx, plain)
		Eventually(gone(ctx, plain)).Should(BeTrue())
		Expect(seen.all()).To(Equal([]string{"create white", "delete"}))
		Expect(o.logs.errors()).To(BeEmpty())
	}, SpecTimeout(minute))

	It("do not list or watch objects if their kind has no other handlers (OBS-10)", func(ctx context.Context) {
		o, reviews, made := newWebhookHost(ctx), &calls{}, &calls{}
		requests := &calls{}
		op := o.runOperator(func(config *rest.Config, _ *manager.Options) {
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					requests.notef("%s %s", r.Method, r.URL.Path)
					return next.RoundTrip(r)
				})
			})
		}, kopf.For(&v1.Widget{}).Validate("check", checkSize(reviews)),
			kopf.For(kopf.Unstructured(gadgetGVK)).OnCreate("create", ok[*unstructured.Unstructured](made, "create")))
		o.awaitCalls(ctx, reviews, "check red")
		gadget := untyped(gadgetGVK, o.ns, "a")
		create(ctx, gadget)
		create(ctx, widget(o.ns, "a"))
		handled(ctx, gadget)
		Expect(requests.all()).To(ContainElement(ContainSubstring("/gadgets")), "the recorder must record requests")
		Expect(requests.all()).NotTo(ContainElement(ContainSubstring("/widgets")))
		Expect(fresh(ctx, widget(o.ns, "a"))()).To(HaveField("Annotations", BeEmpty()))
		op.stop()
	}, SpecTimeout(minute))

	It("work without other handlers; the operator deletes the entries of handlers that were removed from the code (ADM-27)", func(ctx context.Context) {
		o, reviews := newWebhookHost(ctx), &calls{}
		entries := func() (names []string) {
			live := o.configurations()[0].(*admissionregistrationv1.ValidatingWebhookConfiguration)
			Expect(client.IgnoreNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(live), live))).To(Succeed())
			for _, entry := range live.Webhooks {
				names = append(names, entry.Name)
			}
			return names
		}
		first := o.runOperator(nil, kopf.For(&v1.Widget{}).Validate("check", checkSize(reviews)))
		o.awaitCalls(ctx, reviews, "check red")
		first.stop()
		Expect(entries()).To(Equal([]string{"check." + o.name}), "the entries must remain after the operator has stopped")
		Expect(k8s.Create(ctx, widget(o.ns, "a"))).To(MatchError(ContainSubstring("failed calling webhook")))

		made := &calls{}
		o.runOperator(nil, kopf.For(&v1.Widget{}).OnCreate("create", ok[W](made, "create")))
		Eventually(entries).Should(BeEmpty())
		Eventually(func() error { return k8s.Create(ctx, widget(o.ns, "a")) }).Should(Succeed())
		Eventually(made.all).Should(Equal([]string{"create:create"}))
	}, SpecTimeout(minute))

	It("use the memo of a handled object, and a temporary memo for other and new objects (ADM-16, SE-30)", func(ctx context.Context) {
		o, reviews, resumed := newWebhookHost(ctx), &calls{}, &calls{}
		old := widget(o.ns, "old")
		handledBefore(ctx, old, kopf.For(&v1.Widget{}).OnCreate("create", ok[W](&calls{}, "create")))

		count, begin := kopf.NewMemo[int]("count"), make(chan struct{})
		o.runOperator(nil,
			kopf.OnStartup("wait", func(ctx context.Context) error {
				select {
				case <-begin:
				case <-ctx.Done():
				}
				return nil
			}),
			kopf.For(&v1.Widget{}).
				Validate("count", func(ctx context.Context, req *admitted) error {
					n, known := count.Load(ctx)
					count.Store(ctx, n+1)
					reviews.notef("%s %s: %v %d", req.Operation, req.Object.Name, known, n)
					return nil
				}).
				OnCreate("create", func(ctx context.Context, _ *kopf.Request[W]) error {
					count.Store(ctx, 10)
					return nil
				}).
				OnResume("resume", ok[W](resumed, "resume")))
		o.awaitCalls(ctx, reviews, "CREATE probe: false 0")

		dryRunUpdate := func(obj W) {
			GinkgoHelper()
			label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"tried":"yes"}}}`))
			Expect(k8s.Patch(ctx, obj.DeepCopy(), label, client.DryRunAll)).To(Succeed())
		}

		// Before any handler has run, no object has a memo. Each request therefore has a temporary memo.
		dryRunUpdate(old)
		dryRunUpdate(old)
		Expect(reviews.all()).To(Equal([]string{"UPDATE old: false 0", "UPDATE old: false 0"}))
		close(begin)
		Eventually(resumed.all).Should(HaveLen(1), "SE-30: the resume handler must be called once")

		fresh := widget(o.ns, "fresh")
		create(ctx, fresh)
		handled(ctx, fresh)
		Expect(reviews.all()).To(ContainElements("CREATE fresh: false 0", "UPDATE fresh: true 10"), "the update by the operator must also be reviewed")
		for i := range 2 {
			dryRunUpdate(fresh)
			Expect(reviews.all()).To(ContainElement(fmt.Sprintf("UPDATE fresh: true %d", 11+i)))
		}
	}, SpecTimeout(minute))

	It("are called during a pause (PEER-52)", func(ctx context.Context) {
		o, seen, reviews := newWebhookHost(ctx), &calls{}, &calls{}
		other := newLaptop(ctx, o.ns)
		other.join(ctx)
		o.runOperator(nil, kopf.For(&v1.Widget{}).
			Mutate("paint", paint(reviews)).Validate("check", checkSize(reviews)).
			OnCreate("create", func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("create %s", req.Object.Spec.Color)
				return nil
			}), kopf.WithPeering(peering.Options{Namespaces: []string{o.ns}, Mandatory: true}))
		o.awaitCalls(ctx, reviews, "paint", "check red")
		plain := &v1.Widget{ObjectMeta: metav1.ObjectMeta{Namespace: o.ns, Name: "plain"}}
		create(ctx, plain)
		Expect(plain.Spec.Color).To(Equal("white"))
		huge := widget(o.ns, "huge")
		huge.Spec.Size = 101
		Expect(k8s.Create(ctx, huge)).To(MatchError(ContainSubstring("is more than 100")))
		Consistently(seen.all).Should(BeEmpty(), "no handler may be called during the pause")
		other.leave(ctx)
		Eventually(seen.all).Should(Equal([]string{"create white"}))
	}, SpecTimeout(minute))

	It("are served by a replica that waits for leadership, and by a new leader (PEER-52, ADM-41)", func(ctx context.Context) {
		o := newWebhookHost(ctx)
		elected := func(_ *rest.Config, options *manager.Options) {
			options.LeaderElection, options.LeaderElectionReleaseOnCancel = true, true
			options.LeaderElectionID, options.LeaderElectionNamespace = "replicas", o.ns
		}
		// The leader writes the configurations with the address of the other replica.
		replica := func(port int, seen, reviews *calls) *running {
			mgr := o.manager(port, elected)
			Expect(kopf.SetupWithManager(mgr, o.options(), kopf.For(&v1.Widget{}).
				Mutate("paint", paint(reviews)).Validate("check", checkSize(reviews)).
				OnCreate("create", ok[W](seen, "create")))).To(Succeed())
			return launch(mgr, o.logs)
		}
		leaderSeen, leaderReviews, waitingSeen, waitingReviews := &calls{}, &calls{}, &calls{}, &calls{}
		leader := replica(freePort(), leaderSeen, leaderReviews)
		Eventually(leader.Elected()).Should(BeClosed())
		waiting := replica(o.port, waitingSeen, waitingReviews)
		o.awaitCalls(ctx, waitingReviews, "paint", "check red")

		one := widget(o.ns, "one")
		one.Spec.Color = ""
		create(ctx, one)
		Expect(one.Spec.Color).To(Equal("white"))
		handled(ctx, one)
		Expect(leaderSeen.all()).To(Equal([]string{"create:create"}))
		Expect(waiting.Elected()).NotTo(BeClosed())
		Expect(waitingSeen.all()).To(BeEmpty())
		Expect(leaderReviews.all()).To(BeEmpty(), "the API server must call the other replica")

		leader.stop()
		Eventually(waiting.Elected()).Should(BeClosed())
		two := widget(o.ns, "two")
		create(ctx, two)
		handled(ctx, two)
		Expect(waitingSeen.all()).To(Equal([]string{"create:create"}))
		Expect(strings.Join(o.logs.errors(), "\n")).NotTo(ContainSubstring("admission"))
	}, SpecTimeout(2*minute))
})
