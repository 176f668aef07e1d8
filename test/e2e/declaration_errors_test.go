package e2e

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("Errors of the declaration", func() {
	type W = *v1.Widget
	fn := func(context.Context, *kopf.Request[W]) error { return nil }
	widgets := func(opts ...kopf.ResourceOption) *kopf.Resource[W] { return kopf.For(&v1.Widget{}, opts...) }
	good := func(opts ...kopf.ResourceOption) *kopf.Resource[W] { return widgets(opts...).OnCreate("good", fn) }
	with := func(opts ...kopf.HandlerOption) *kopf.Resource[W] { return widgets().OnCreate("made", fn, opts...) }
	id := func(id string) *kopf.Resource[W] { return widgets().OnCreate(id, fn) }

	It("do not occur in a correct declaration", func() {
		Expect(kopf.New(newManager("default", &logRecorder{}), good()).CheckDeclaration()).To(Succeed())
	})

	// Each error names the place, the problem and the solution.
	DescribeTable("are returned with their place and solution",
		func(declare func() []kopf.Option, words ...string) {
			op := kopf.New(newManager("default", &logRecorder{}), declare()...)
			err := op.CheckDeclaration()
			Expect(err).To(HaveOccurred())
			lines := strings.Split(err.Error(), "\n")
			Expect(lines).To(HaveLen(2), "want a heading and one error, got: %s", err)
			Expect(lines[0]).To(Equal("the operator cannot start:"))
			for _, word := range words {
				Expect(lines[1]).To(ContainSubstring(word))
			}
			Expect(op.CheckDeclaration()).To(MatchError(err.Error()), "a second check returns the same error")
			Expect(op.Start(context.Background())).To(MatchError(err.Error()), "the start returns the same error")
		},
		// Ids.
		Entry("a duplicate id (HND-12)", just(widgets().OnCreate("made", fn).OnUpdate("made", fn)),
			`Widget: OnUpdate("made"): `, "used twice", "rename one", "On"),
		Entry("ids with the same storage key", just(widgets().OnCreate("a/b", fn).OnDelete("a.b", fn)),
			`Widget: OnDelete("a.b"): `, `"a/b" and "a.b"`, "kopf.zalando.org/a.b", "rename one"),
		Entry("an empty id", just(id("")), `Widget: OnCreate(""): `, "empty", "set one"),
		Entry("an id with a colon", just(id("a:b")), `Widget: OnCreate("a:b"): `, "cannot be stored", "use letters"),
		Entry("an id with a space", just(id("a b")), `Widget: OnCreate("a b"): `, "cannot be stored", "use letters"),
		Entry("an id beyond ASCII", just(id("ü")), `Widget: OnCreate("ü"): `, "cannot be stored", "use letters"),
		Entry("a reserved id", just(id("last-handled-configuration")),
			`Widget: OnCreate("last-handled-configuration"): `, "reserved by the framework", "choose another"),
		Entry("another reserved id", just(id("touch-dummy")), `"touch-dummy"`, "reserved by the framework", "choose another"),
		// Handlers.
		Entry("no function", just(widgets().OnResume("back", nil)), `Widget: OnResume("back"): `, "nil", "pass a function"),
		Entry("no reasons", just(widgets().On("any", nil, fn)), `Widget: On("any"): `, "reasons are empty", "ReasonCreate"),
		Entry("an unknown reason", just(widgets().On("any", []kopf.Reason{"whim"}, fn)), `Widget: On("any"): `, `"whim"`, `"create"`),
		Entry("negative retries", just(with(kopf.Retries(-1))), `Widget: OnCreate("made"): `, "Retries must not be negative, got -1", "leave it out"),
		Entry("a negative timeout", just(with(kopf.Timeout(-time.Second))), `Widget: OnCreate("made"): `, "Timeout must not be negative, got -1s"),
		Entry("a negative attempt timeout", just(with(kopf.AttemptTimeout(-time.Second))), `OnCreate("made")`, "AttemptTimeout must not be negative, got -1s"),
		Entry("a negative backoff", just(with(kopf.Backoff(-time.Second))), `OnCreate("made")`, "Backoff must not be negative, got -1s"),
		Entry("no backoff function", just(with(kopf.BackoffFunc(nil))), `OnCreate("made")`, "BackoffFunc", "pass a function"),
		Entry("an unknown error mode", just(with(kopf.ErrorMode(7))), `OnCreate("made")`, "ErrorMode has the invalid value 7", "ErrorsTemporary"),
		Entry("Optional, but not for deletions", just(with(kopf.Optional())), `Widget: OnCreate("made"): `, "Optional", "delete handlers"),
		Entry("EvenIfDeleted, but not for resuming", just(with(kopf.EvenIfDeleted())), `OnCreate("made")`, "EvenIfDeleted", "resume handlers"),
		// Resources.
		Entry("no resources", just(), "no resources", "For"),
		Entry("no handlers", just(widgets()), "Widget: ", "no handlers", "OnCreate"),
		Entry("a nil resource", just(good(), (*kopf.Resource[W])(nil)), "a resource is nil", "For"),
		Entry("an object that is nil", just(kopf.For[W](nil).OnCreate("made", fn)), "For(nil)", "&v1."),
		Entry("a nil pointer as object", just(kopf.For[client.Object](nil).OnCreate("made", ok[client.Object](&calls{}, ""))), "For(nil)", "&v1."),
		Entry("a Go type that is not registered in the scheme",
			just(kopf.For(&apiextensionsv1.CustomResourceDefinition{}).
				OnCreate("made", ok[*apiextensionsv1.CustomResourceDefinition](&calls{}, ""))),
			"CustomResourceDefinition", "not registered in the manager's scheme", "AddToScheme"),
		Entry("an untyped object without a kind",
			just(kopf.For(kopf.Unstructured(schema.GroupVersionKind{})).OnCreate("made", ok[*unstructured.Unstructured](&calls{}, ""))),
			"Unstructured", "set apiVersion and kind"),
		Entry("a duplicate kind (SEL-16)", just(good(), kopf.For(kopf.Unstructured(widgetGVK)).OnCreate("made", ok[*unstructured.Unstructured](&calls{}, ""))),
			"Widget: ", "two resources", "put the handlers into one"),
		Entry("an empty name", just(good(kopf.WithName(""))), "Widget: ", "WithName", "leave it out"),
		Entry("no workers", just(good(kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: -2}))), "Widget: ", "WithControllerOptions: MaxConcurrentReconciles must not be negative, got -2", "leave it out"),
		Entry("a nil predicate", just(good(kopf.WithPredicates(nil))), "Widget: ", "WithPredicates", "remove it"),
		Entry("a reconciler", just(good(kopf.WithControllerOptions(controller.Options{
			Reconciler: reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil }),
		}))), "Widget: ", "WithControllerOptions", "Reconciler", "remove it"),
		Entry("leader election of one kind", just(good(kopf.WithControllerOptions(controller.Options{NeedLeaderElection: new(false)}))),
			"Widget: ", "WithControllerOptions", "NeedLeaderElection", "remove them"),
		Entry("a warm-up", just(good(kopf.WithControllerOptions(controller.Options{EnableWarmup: new(true)}))),
			"Widget: ", "WithControllerOptions", "EnableWarmup", "remove them"),
		Entry("results without a place", just(good(kopf.WithResults(""))), "Widget: ", "WithResults", `"status"`),
		Entry("results with a gap", just(good(kopf.WithResults("status..x"))), "Widget: ", "WithResults", `"status"`),
		Entry("results in the metadata", just(good(kopf.WithResults("metadata.annotations"))), "Widget: ", "WithResults", `"status"`),
		// The operator.
		Entry("a nil option", just(good(), nil), "an option is nil", "remove it"),
		Entry("no finalizer", just(good(), kopf.WithFinalizer("")), `WithFinalizer("")`, `"example.com/finalizer"`),
		Entry("a finalizer of Kubernetes", just(good(), kopf.WithFinalizer("orphan")), `WithFinalizer("orphan")`, "belongs to Kubernetes", `"example.com/finalizer"`),
		Entry("a finalizer with a space", just(good(), kopf.WithFinalizer("example.com/my own")), `"example.com/my own"`, `"example.com/finalizer"`),
		Entry("no store", just(good(), kopf.WithProgress(nil)), "WithProgress(nil)", "leave it out"),
		Entry("no baseline", just(good(), kopf.WithBaseline(nil)), "WithBaseline(nil)", "leave it out"),
		Entry("a progress store with an invalid prefix", just(good(), kopf.WithProgress(progress.Annotations("not a prefix"))), `"not a prefix/good"`),
		Entry("a baseline with an invalid prefix", just(good(), kopf.WithBaseline(progress.AnnotationBaseline("not a prefix"))), `"not a prefix`),
		Entry("no lifecycle", just(good(), kopf.WithLifecycle(nil)), "WithLifecycle(nil)", "leave it out"),
		Entry("a negative checkpoint", just(good(), kopf.WithCheckpoint(-1)), "WithCheckpoint", "use 0"),
	)

	It("are returned together", func() {
		op := kopf.New(newManager("default", &logRecorder{}),
			kopf.WithFinalizer("my own"),
			widgets(kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: -1})).
				OnCreate("a:b", nil, kopf.Retries(-1), kopf.Backoff(-1)).
				OnUpdate("made", fn, kopf.Optional()).
				OnDelete("made", fn),
			kopf.For[W](nil),
			kopf.For(kopf.Unstructured(gadgetGVK)),
			nil,
		)
		err := op.CheckDeclaration()
		Expect(err).To(HaveOccurred())
		Expect(strings.Split(err.Error(), "\n")).To(ConsistOf(
			Equal("the operator cannot start:"),
			HavePrefix(`WithFinalizer("my own"): `),
			HavePrefix("an option is nil: "),
			HavePrefix("Widget: WithControllerOptions: MaxConcurrentReconciles must not be negative, got -1: "),
			HavePrefix(`Widget: OnCreate("a:b"): the handler is nil`),
			HavePrefix(`Widget: OnCreate("a:b"): Retries must not be negative`),
			HavePrefix(`Widget: OnCreate("a:b"): Backoff must not be negative`),
			HavePrefix(`Widget: OnCreate("a:b"): id "a:b"`),
			HavePrefix(`Widget: OnUpdate("made"): Optional `),
			HavePrefix(`Widget: OnDelete("made"): the id "made" is used twice`),
			HavePrefix("For(nil): "),
			HavePrefix("Gadget: the resource has no handlers"),
		))
		Expect(op.CheckDeclaration()).To(MatchError(err.Error()), "a second check returns the same error")
	})

	It("include a missing manager", func() {
		op := kopf.New(nil, good())
		Expect(op.CheckDeclaration()).To(MatchError(ContainSubstring("the manager is nil")))
		Expect(op.Start(context.Background())).To(MatchError(ContainSubstring("the manager is nil")))
		Expect(op.NeedLeaderElection()).To(BeTrue())
	})

	It("make SetupWithManager fail before it adds a controller, and make the manager fail at its start", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		create(ctx, obj)
		bad := widgets().OnCreate("created", ok[W](seen, "bad")).OnUpdate("a:b", ok[W](seen, "bad"))

		logs := &logRecorder{}
		mgr := newManager(ns, logs)
		Expect(kopf.SetupWithManager(mgr, bad)).To(MatchError(ContainSubstring(`Widget: OnUpdate("a:b")`)))
		Expect(kopf.SetupWithManager(mgr, widgets().OnCreate("created", ok[W](seen, "good")))).To(Succeed())
		op := launch(mgr, logs)
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"good:create"}))
		op.stop()

		mgr = newManager(ns, logs)
		Expect(mgr.Add(kopf.New(mgr, bad))).To(Succeed())
		Expect(failedStart(ctx, mgr)).To(MatchError(ContainSubstring(`Widget: OnUpdate("a:b")`)))
		Expect(seen.all()).To(HaveLen(1))
	}, SpecTimeout(minute))

	It("include a kind without a CRD, before anything is written (SEL-13)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		create(ctx, obj)
		mgr := newManager(ns, &logRecorder{})
		Expect(kopf.SetupWithManager(mgr,
			kopf.For(&v1.Widget{}).OnCreate("created", ok[W](seen, "created")).OnDelete("deleted", ok[W](seen, "deleted")),
			kopf.For(kopf.Unstructured(v1.GroupVersion.WithKind("Missing"))).OnCreate("created", ok[*unstructured.Unstructured](seen, "missing")),
			kopf.For(kopf.Unstructured(schema.GroupVersionKind{Group: "nowhere.example.com", Version: "v2", Kind: "Lost"})).
				OnCreate("created", ok[*unstructured.Unstructured](seen, "lost")),
		)).To(Succeed(), "the check without the API server must succeed")
		Expect(failedStart(ctx, mgr)).To(MatchError(And(
			ContainSubstring("Missing: the API server serves e2e.example.com/v1, but has no kind Missing"),
			ContainSubstring("Lost: the API server does not serve nowhere.example.com/v2"),
			ContainSubstring("install its CustomResourceDefinition"),
			Not(ContainSubstring("Widget")))))
		Expect(fresh(ctx, obj)()).To(HaveField("ResourceVersion", obj.ResourceVersion))
		Expect(seen.all()).To(BeEmpty())
	}, SpecTimeout(minute))

	It("suggest a kind with a similar name", func(ctx context.Context) {
		misspelled := func(gvk schema.GroupVersionKind) kopf.Option {
			return kopf.For(kopf.Unstructured(gvk)).OnCreate("created", ok[*unstructured.Unstructured](&calls{}, ""))
		}
		mgr := newManager("default", &logRecorder{})
		Expect(kopf.SetupWithManager(mgr,
			misspelled(v1.GroupVersion.WithKind("Wigdet")),
			misspelled(v1.GroupVersion.WithKind("widgets")),
			misspelled(schema.GroupVersionKind{Group: "e2e.example.com", Version: "v7", Kind: "Widget"}),
			misspelled(schema.GroupVersionKind{Group: "extensions", Version: "v1", Kind: "Deployment"}),
			kopf.For(&v1.Widget{}).OnReconcile("sync", fn).
				Owns(kopf.Unstructured(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deploymnt"})),
		)).To(Succeed())
		Expect(failedStart(ctx, mgr)).To(MatchError(And(
			ContainSubstring("Wigdet: the API server serves e2e.example.com/v1, but has no kind Wigdet; did you mean Widget?"),
			ContainSubstring("widgets: the API server serves e2e.example.com/v1, but has no kind widgets; did you mean Widget?"),
			ContainSubstring("Widget: the API server does not serve e2e.example.com/v7, but serves other versions of the group; it serves Widget in e2e.example.com/v1: correct the version"),
			ContainSubstring("Deployment: the API server does not serve extensions/v1; it serves Deployment in apps/v1: correct the group"),
			ContainSubstring("Widget: Owns(Deploymnt): the API server serves apps/v1, but has no kind Deploymnt; did you mean Deployment?"))))
	}, SpecTimeout(minute))

	It("are warnings for fields that the schema of a kind without a Go type does not have", func(ctx context.Context) {
		ns := newNamespace(ctx)
		untyped := ok[*unstructured.Unstructured](&calls{}, "")
		op := start(ns, options(kopf.For(kopf.Unstructured(strictGVK)).
			OnField("misspelled", "spec.sise", untyped).
			OnUpdate("text", untyped, kopf.Field("spec.size", filter.Equal("10"))).
			OnUpdate("right", untyped, kopf.Field("spec.size", filter.Equal(10))).
			OnUpdate("label", untyped, kopf.Field("metadata.labels.tier", filter.Equal("gold")))))
		Eventually(func() []string {
			return op.log.find("The field of a handler does not fit the schema of the kind")
		}).Should(ConsistOf(
			And(ContainSubstring("spec.sise"), ContainSubstring("did you mean spec.size?"), ContainSubstring("misspelled")),
			And(ContainSubstring("can never match: the field is an integer: use 10"), ContainSubstring("text"))))
	}, SpecTimeout(minute))

	It("do not include a kind that cannot be checked because the server does not respond", func(ctx context.Context) {
		mgr := newManager("default", &logRecorder{})
		mgr.GetConfig().Host = "127.0.0.1:1"
		Expect(kopf.SetupWithManager(mgr, good())).To(Succeed())
		err := failedStart(ctx, mgr)
		Expect(err).To(MatchError(ContainSubstring("Widget: discovering the kind")))
		Expect(err).NotTo(MatchError(ContainSubstring("CustomResourceDefinition")))
	}, SpecTimeout(minute))
})

// just returns its arguments as a list of options.
func just(opts ...kopf.Option) func() []kopf.Option { return func() []kopf.Option { return opts } }

// failedStart starts a manager that must fail, and returns its error.
func failedStart(ctx context.Context, mgr manager.Manager) error {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	var err error
	Eventually(ended).Should(Receive(&err))
	mgr.GetHTTPClient().CloseIdleConnections()
	return err
}
