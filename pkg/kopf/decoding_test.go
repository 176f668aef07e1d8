package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/events"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

type widget = *v1.Widget

func newWidget(name string, size int) widget {
	return &v1.Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1.WidgetSpec{Size: size}}
}

// brokenWidget returns a widget whose size does not fit the Go type.
func brokenWidget(name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": 1.5}}}
	obj.SetGroupVersionKind(v1.GroupVersion.WithKind("Widget"))
	obj.SetNamespace("default")
	obj.SetName(name)
	return obj
}

func widgetScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// A decodingTest runs an operator of widgets in memory.
type decodingTest struct {
	*testing.T
	*kopftest.Cluster
	run      *kopftest.Operator
	operator *kopf.Operator
	mu       sync.Mutex
	lines    []string
}

// testDecoding starts an operator in a cluster with some objects.
func testDecoding(t *testing.T, objects []client.Object, options []kopf.Option, act func(*decodingTest), change ...func(*manager.Options)) {
	t.Helper()
	scheme := widgetScheme(t)
	synctest.Test(t, func(t *testing.T) {
		d := &decodingTest{T: t, Cluster: kopftest.Memory(t, kopftest.Types(scheme), kopftest.Objects(objects...))}
		logger := funcr.New(func(_, line string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.lines = append(d.lines, line)
		}, funcr.Options{})
		d.run = d.RunManager(t, func(mgr manager.Manager) error {
			d.operator = kopf.New(mgr, options...)
			return mgr.Add(d.operator)
		}, append(change, func(o *manager.Options) { o.Logger = logger })...)
		act(d)
	})
}

// resize sets the size of a widget to a value that may not fit its Go type.
func (d *decodingTest) resize(name string, size any) {
	d.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"size":%v}}`, size))
	if err := d.Client.Patch(d.Context(), brokenWidget(name), patch); err != nil {
		d.Fatal(err)
	}
}

// logged returns the number of log lines with all parts.
func (d *decodingTest) logged(parts ...string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, line := range d.lines {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			n++
		}
	}
	return n
}

// warnings returns the Events with the reason Undecodable.
func (d *decodingTest) warnings() (all []string) {
	d.Helper()
	var list eventsv1.EventList
	if err := d.Client.List(d.Context(), &list); err != nil {
		d.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Reason == "Undecodable" {
			all = append(all, fmt.Sprintf("%s %s %s: %s", e.Type, e.Regarding.Kind, e.Regarding.Name, e.Note))
		}
	}
	return all
}

// wantReady checks the readiness. An empty text means that the operator is ready.
func (d *decodingTest) wantReady(when, want string) {
	d.Helper()
	err := d.operator.Readyz(nil)
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		d.Errorf("%s: Readyz = %v, want %q", when, err, want)
	}
}

// handlersOf returns the handlers that were called for a widget.
func (d *decodingTest) handlersOf(name string) []string { return d.run.Handlers(newWidget(name, 0)) }

const brokenSize = "spec.size: json: cannot unmarshal number 1.5 into Go struct field WidgetSpec.spec.size of type int"

func ignoreWidget(context.Context, *kopf.Request[widget]) error { return nil }

func ignoreConfigMap(context.Context, *kopf.Request[configMap]) error { return nil }

// One object does not decode. The operator handles the others, and reports this one everywhere.
func TestNewCache_OtherObjectsAreHandled(t *testing.T) {
	for name, options := range map[string][]kopf.Option{
		"the cache of the manager": nil,
		"a cache of the operator":  {kopf.WithWatchSelector("!unselected")},
		"caches of namespaces":     {kopf.WithNamespaces("default", "other")},
	} {
		t.Run(name, func(t *testing.T) {
			options = append(options, kopf.For(&v1.Widget{}).OnCreate("provision", ignoreWidget).OnUpdate("resize", ignoreWidget))
			testDecoding(t, []client.Object{newWidget("a", 1), brokenWidget("bad"), newWidget("z", 1)}, options, func(d *decodingTest) {
				d.run.RunUntilQuiet(d)
				equal(d.T, "handlers of a", strings.Join(d.handlersOf("a"), " "), "provision")
				equal(d.T, "handlers of z", strings.Join(d.handlersOf("z"), " "), "provision")
				equal(d.T, "handlers of the broken widget", len(d.handlersOf("bad")), 0)

				equal(d.T, "log lines", d.logged("An object does not decode into its Go type", `"namespace"="default"`, `"name"="bad"`, "*v1.Widget", "spec.size: json:"), 1)
				note := "Warning Widget bad: the operator does not handle the object, because it does not decode into *v1.Widget: " + brokenSize
				equal(d.T, "Events", strings.Join(d.warnings(), "\n"), note)
				d.wantReady("with the broken widget", "Widget: objects that do not decode into their Go type are not handled: default/bad ("+brokenSize+")")
				x, err := d.operator.Explain(d.Context(), newWidget("bad", 0))
				if err != nil || !strings.Contains(strings.Join(x.Waits, "\n"), "it does not decode into *v1.Widget: correct the field "+brokenSize) {
					d.Errorf("Explain = %+v, %v, want the field", x, err)
				}

				kinds, err := d.operator.StatusKinds()
				if err != nil || len(kinds) != 1 || len(kinds[0].Objects) != 3 || kinds[0].Objects[1].Error != "the object does not decode: "+brokenSize {
					t.Errorf("the status page has %+v, %v, want the broken widget in the middle", kinds, err)
				}

				d.resize("a", 2)
				d.resize("bad", 2.5)
				d.run.RunUntilQuiet(d)
				equal(d.T, "handlers of a after an edit", strings.Join(d.handlersOf("a"), " "), "provision resize")
				equal(d.T, "Events about another fault", len(d.warnings()), 2)

				d.resize("bad", 3)
				d.run.RunUntilQuiet(d)
				equal(d.T, "handlers of the repaired widget", strings.Join(d.handlersOf("bad"), " "), "provision")
				d.wantReady("after the repair", "")
				equal(d.T, "log lines about the repair", d.logged("was repaired, was deleted, or has left the scope", `"name"="bad"`), 1)
			})
		})
	}
}

// A handled object ceases to decode. This is no deletion: its delete handlers are not called, its daemon learns that it is out of scope, and its finalizer
// stays. The repaired object is handled again.
func TestNewCache_HandledObjectBecomesUndecodable(t *testing.T) {
	var mu sync.Mutex
	var causes []error
	widgets := kopf.For(&v1.Widget{}).OnCreate("provision", ignoreWidget).OnDelete("drop", ignoreWidget).OnUpdate("resize", ignoreWidget).
		OnDelete("tell", ignoreWidget, kopf.Optional()).
		Daemon("watch", daemons.Daemon{}, func(ctx context.Context, _ *kopf.Request[widget]) error {
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			causes = append(causes, context.Cause(ctx))
			return nil
		})
	testDecoding(t, []client.Object{newWidget("a", 1), newWidget("b", 1)}, []kopf.Option{widgets}, func(d *decodingTest) {
		d.run.RunUntilQuiet(d)
		d.resize("a", 1.5)
		<-time.After(10 * time.Minute)
		d.run.RunUntilQuiet(d)
		equal(d.T, "handlers of the broken widget", strings.Join(slices.Sorted(slices.Values(d.handlersOf("a"))), " "), "provision watch")
		d.wantReady("with the broken widget", "default/a (spec.size:")
		equal(d.T, "errors", d.logged(`"error"="reading`), 0)
		live := brokenWidget("a")
		if err := d.Client.Get(d.Context(), client.ObjectKeyFromObject(live), live); err != nil || len(live.GetFinalizers()) != 1 {
			d.Errorf("the widget has the finalizers %q (%v), want one", live.GetFinalizers(), err)
		}

		d.resize("a", 7)
		d.run.RunUntilQuiet(d)
		equal(d.T, "handlers of the repaired widget", strings.Join(slices.Sorted(slices.Values(d.handlersOf("a"))), " "), "provision resize watch watch")
		if err := d.Client.Delete(d.Context(), newWidget("a", 0)); err != nil {
			d.Fatal(err)
		}
		d.run.RunUntilQuiet(d)
		equal(d.T, "the delete handler", slices.Contains(d.handlersOf("a"), "drop"), true)
		mu.Lock()
		defer mu.Unlock()
		if len(causes) != 2 || !errors.Is(causes[0], daemons.ErrOutOfScope) || !errors.Is(causes[1], daemons.ErrDeleted) {
			d.Errorf("the daemon ended because of %v, want ErrOutOfScope and then ErrDeleted", causes)
		}
	})
}

// A related kind has an object that does not decode. The other ones trigger handlers, and a handler that tracks the broken one gets another error than NotFound.
func TestNewCache_RelatedObject(t *testing.T) {
	var mu sync.Mutex
	var tracked error
	maps := kopf.For(&corev1.ConfigMap{}).OnReconcile("sync", func(ctx context.Context, req *kopf.Request[configMap]) error {
		mu.Lock()
		defer mu.Unlock()
		tracked = req.Track(ctx, newWidget("bad", 0))
		return nil
	}).Owns(&v1.Widget{})
	owner := newConfigMap("one")
	testDecoding(t, []client.Object{owner, brokenWidget("bad")}, []kopf.Option{maps}, func(d *decodingTest) {
		d.run.RunUntilQuiet(d)
		if err := d.Client.Get(d.Context(), client.ObjectKeyFromObject(owner), owner); err != nil {
			d.Fatal(err)
		}
		before := len(d.run.Handlers(owner))
		child := newWidget("child", 1)
		child.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
		if err := d.Client.Create(d.Context(), child); err != nil {
			d.Fatal(err)
		}
		d.run.RunUntilQuiet(d)
		equal(d.T, "calls after the creation of a child", len(d.run.Handlers(owner)), before+1)
		equal(d.T, "Events", len(d.warnings()), 1)
		d.wantReady("with the broken widget", "default/bad (spec.size:")
		mu.Lock()
		defer mu.Unlock()
		if tracked == nil || apierrors.IsNotFound(tracked) || !strings.Contains(tracked.Error(), "Widget default/bad: spec.size") {
			d.Errorf("Track = %v, want an error that names the field", tracked)
		}
	})
}

// An operator with admission handlers stays ready, because the API server calls these when a user repairs the object.
func TestNewCache_AdmissionStaysReady(t *testing.T) {
	widgets := kopf.For(&v1.Widget{}).OnCreate("provision", ignoreWidget).
		Validate("check", func(context.Context, *webhooks.Request[widget]) error { return nil })
	testDecoding(t, []client.Object{newWidget("a", 1), brokenWidget("bad")}, []kopf.Option{widgets}, func(d *decodingTest) {
		d.run.RunUntilQuiet(d)
		d.wantReady("with the broken widget", "")
		equal(d.T, "Events", len(d.warnings()), 1)
	})
}

func withDefaultCache(o *manager.Options) { o.NewCache = cache.New }

// Without NewCache, the operator says which object blocks the kind, and how to handle the others.
func TestNewCache_MissingAtTheStart(t *testing.T) {
	scheme := widgetScheme(t)
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Types(scheme), kopftest.Objects(newWidget("a", 1), brokenWidget("bad"), newConfigMap("one")))
		mgr, err := manager.New(cluster.Config, manager.Options{Scheme: scheme, NewCache: cache.New, Metrics: server.Options{BindAddress: "0"}})
		if err != nil {
			t.Fatal(err)
		}
		operator := kopf.New(mgr, kopf.WithRightsCheck(rights.Skip), kopf.WithEvents(events.Options{Level: events.Off}),
			kopf.For(&v1.Widget{}).OnCreate("provision", ignoreWidget), kopf.For(&corev1.ConfigMap{}).OnCreate("copy", ignoreConfigMap))
		if err := mgr.Add(operator); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(t.Context()) }()
		<-time.After(20 * time.Second)
		const want = "Widget: no object of the kind is handled, because the cache of the manager cannot decode default/bad (" + brokenSize + "): correct or delete it, " +
			"or set NewCache: kopf.NewCache in the options of the manager to handle the other objects"
		if err := operator.Readyz(nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Readyz = %v, want %q", err, want)
		}
		if err := <-ended; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the start error is %v, want %q", err, want)
		}
	})
}

// Without NewCache, an object that ceases to decode blocks the watch of its kind.
func TestNewCache_MissingWhileRunning(t *testing.T) {
	widgets := kopf.For(&v1.Widget{}).OnCreate("provision", ignoreWidget).OnUpdate("resize", ignoreWidget)
	testDecoding(t, []client.Object{newWidget("a", 1), newWidget("z", 1)}, []kopf.Option{widgets}, func(d *decodingTest) {
		d.run.RunUntilQuiet(d)
		d.resize("a", 1.5)
		d.resize("z", 2)
		<-time.After(4 * time.Minute)
		equal(d.T, "handlers of z", strings.Join(d.handlersOf("z"), " "), "provision")
		d.wantReady("with the broken widget", "Widget: no object of the kind is handled, because the cache of the manager cannot decode default/a ("+brokenSize)
		equal(d.T, "health", d.operator.Healthz(nil), error(nil))
		equal(d.T, "Events", len(d.warnings()), 1)
		x, err := d.operator.Explain(d.Context(), newWidget("z", 0))
		if err != nil || !strings.Contains(strings.Join(x.Waits, "\n"), "cannot decode default/a") {
			d.Errorf("Explain = %+v, %v, want the object that blocks the kind", x, err)
		}
		<-time.After(20 * time.Minute)
		equal(d.T, "health after a longer time", d.operator.Healthz(nil), error(nil))
		d.resize("a", 3)
		<-time.After(4 * time.Minute)
		d.run.RunUntilQuiet(d)
		equal(d.T, "handlers of z after the repair", strings.Join(d.handlersOf("z"), " "), "provision resize")
		d.wantReady("after the repair", "")
	}, withDefaultCache)
}

func TestCheckObjects(t *testing.T) {
	maps := kopf.For(&corev1.ConfigMap{}).OnReconcile("sync", ignoreConfigMap).Owns(&v1.Widget{})
	objects := []client.Object{newConfigMap("one"), newWidget("a", 1), brokenWidget("bad"), brokenWidget("worse")}
	testDecoding(t, objects, []kopf.Option{maps}, func(d *decodingTest) {
		err := d.operator.CheckObjects(d.Context())
		if want := "Widget default/bad: " + brokenSize + "\nWidget default/worse: " + brokenSize; err == nil || err.Error() != want {
			d.Errorf("CheckObjects = %v, want %q", err, want)
		}
		d.resize("bad", 1)
		d.resize("worse", 1)
		equal(d.T, "CheckObjects after the repair", d.operator.CheckObjects(d.Context()), error(nil))
	})
}
