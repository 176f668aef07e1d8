package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	peeringv1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// A hold keeps the operator from a part of its work for an object.
type hold struct {
	begin, end func(t *testing.T, w *holdWorld)
	passes     []string // what the operator still does for an edit: it calls the handler with this name, or starts the daemon
	deletes    bool     // whether the operator still calls the delete handler, and lets the object go
	why        string   // what Explain says about the object
}

// What an edit causes without a hold.
var allWork = []string{"event", "level", "update", "daemon", "slow"}

// holds are independent of each other, so that any of them can be active at the same time.
var holds = map[string]hold{
	"pause by a peer": {
		func(t *testing.T, w *holdWorld) {
			w.setPeer(t, `{"priority":100,"lastseen":"2100-01-01T00:00:00","lifetime":60}`)
		},
		func(t *testing.T, w *holdWorld) { w.setPeer(t, "null") },
		[]string{"event"}, false, "the operator is paused",
	},
	"pause by the annotation": {
		func(t *testing.T, w *holdWorld) { w.annotate(t, `"true"`) },
		func(t *testing.T, w *holdWorld) { w.annotate(t, "null") },
		[]string{"event"}, false, "the annotation " + kopf.PausedAnnotation + " pauses the object",
	},
	"namespace out of scope": {
		func(t *testing.T, w *holdWorld) { must(t, w.operator.SetNamespaces("other")) },
		func(t *testing.T, w *holdWorld) { must(t, w.operator.SetNamespaces(namespace)) },
		nil, false, "the operator does not handle the namespace",
	},
	"delay of a handler": {
		func(_ *testing.T, w *holdWorld) { w.set(&w.failing, true) },
		func(_ *testing.T, w *holdWorld) { w.set(&w.failing, false) },
		[]string{"event", "level", "update", "daemon"}, true, "",
	},
	"loop of a handler": { // it holds the calls that the handlers cause, not those for an edit by a user
		func(t *testing.T, w *holdWorld) {
			w.set(&w.looping, true)
			patch(t.Context(), t, w.users, w.obj, `{"spec":{"tags":["0"]}}`)
			wait(20 * time.Second)
		},
		func(_ *testing.T, w *holdWorld) { w.set(&w.looping, false) },
		allWork, true, "the handlers of the object cause their own calls",
	},
}

// A holdWorld is an operator with one widget.
type holdWorld struct {
	users    client.Client
	meeting  *unstructured.Unstructured
	operator *kopf.Operator
	engine   *engine.Engine
	obj      widget

	mu                        sync.Mutex
	failing, looping, deleted bool
	size                      int            // the size whose work is noted
	done                      map[string]int // what was done for the size
}

func (w *holdWorld) set(flag *bool, to bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*flag = to
}

func (w *holdWorld) is(flag *bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *flag
}

func (w *holdWorld) note(obj widget, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if obj.Spec.Size == w.size {
		w.done[what]++
	}
}

func (w *holdWorld) work() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.done)
}

func (w *holdWorld) setPeer(t *testing.T, status string) {
	t.Helper()
	must(t, w.users.Patch(t.Context(), w.meeting.DeepCopy(), rawPatch(`{"status":{"other":`+status+`}}`)))
}

func (w *holdWorld) annotate(t *testing.T, value string) {
	t.Helper()
	patch(t.Context(), t, w.users, w.obj, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, kopf.PausedAnnotation, value))
}

func (w *holdWorld) options() []kopf.Option {
	noted := func(what string) kopf.Handler[widget] {
		return func(_ context.Context, req *kopf.Request[widget]) error {
			w.note(req.Object, what)
			return nil
		}
	}
	return []kopf.Option{
		kopf.WithNamespaces(namespace), kopf.WithWatchCheck(0),
		kopf.WithReconcilerWrapper(func(next reconcile.Reconciler) reconcile.Reconciler {
			w.engine = next.(*engine.Engine)
			return next
		}),
		kopf.WithPeering(peering.Options{Namespaces: []string{namespace}, Identity: "operator", Mandatory: true}),
		kopf.For(&v1.Widget{}).
			OnEvent("event", noted("event")).
			OnReconcile("level", noted("level")).
			OnDelete("delete", func(context.Context, *kopf.Request[widget]) error {
				w.set(&w.deleted, true)
				return nil
			}).
			OnUpdate("update", func(ctx context.Context, req *kopf.Request[widget]) error {
				w.note(req.Object, "update")
				if !w.is(&w.looping) {
					return nil
				}
				changed := req.Object.DeepCopy()
				changed.Spec.Tags = append(changed.Spec.Tags, "x")
				return req.Client.Patch(ctx, changed, client.MergeFrom(req.Object))
			}).
			OnUpdate("slow", func(_ context.Context, req *kopf.Request[widget]) error {
				if w.is(&w.failing) {
					return kopf.Temporary(errors.New("not yet"), 30*time.Second)
				}
				w.note(req.Object, "slow")
				return nil
			}, kopf.Field("spec.size")).
			Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[widget]) error {
				w.note(req.Object, "daemon")
				<-ctx.Done()
				return nil
			}, kopf.Field("spec.size", filter.Equal(int64(2)))),
	}
}

// What the operator does for an edit or a deletion while an object is held is what all active holds let pass, regardless of their order and number. When they end,
// in any order, the operator does the rest once. Explain names each hold that the operator would meet.
func TestHolds(t *testing.T) {
	names := slices.Sorted(maps.Keys(holds))
	for i := range 1 << len(names) {
		var set []string
		for j, name := range names {
			if i>>j&1 == 1 {
				set = append(set, name)
			}
		}
		if len(set) > 3 || raceEnabled && len(set) > 2 {
			continue
		}
		t.Run(strings.Join(set, ", "), func(t *testing.T) {
			for _, order := range [][]string{set, reversed(set)} {
				synctest.Test(t, func(t *testing.T) { testHeldEdit(t, set, order) })
				synctest.Test(t, func(t *testing.T) { testHeldDeletion(t, set, order) })
			}
		})
	}
}

func reversed(all []string) []string {
	all = slices.Clone(all)
	slices.Reverse(all)
	return all
}

// startHeld starts an operator with a widget, and begins holds when the widget is handled.
func startHeld(t *testing.T, set []string) (w *holdWorld, stop func()) {
	t.Helper()
	config, scheme, _ := newWorld(t)
	config = withPeerings(config)
	users, err := client.New(config, client.Options{Scheme: scheme})
	must(t, err)
	w = &holdWorld{users: users, meeting: &unstructured.Unstructured{}, done: map[string]int{}}
	w.meeting.SetGroupVersionKind(schema.GroupVersionKind{Group: peeringv1.Group, Version: peeringv1.Version, Kind: "KopfPeering"})
	w.meeting.SetNamespace(namespace)
	w.meeting.SetName("default")
	must(t, users.Create(t.Context(), w.meeting.DeepCopy()))
	w.obj = makeWidget(t, users, "one")
	mgr, err := manager.New(config, manager.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	must(t, err)
	w.operator = kopf.New(mgr, w.options()...)
	must(t, mgr.Add(w.operator))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	wait(10 * time.Second)
	for _, name := range set {
		holds[name].begin(t, w)
		wait(3 * time.Second)
	}
	return w, func() {
		cancel()
		must(t, <-ended)
	}
}

// expectExplained compares the explanation of the object with the active holds. For an object out of scope, Explain says nothing else. The status page says the
// same, without the reasons that only an evaluation of the handlers finds.
func (w *holdWorld) expectExplained(t *testing.T, set []string) {
	t.Helper()
	x, err := w.operator.Explain(t.Context(), w.obj)
	must(t, err)
	waits := strings.Join(x.Waits, "; ")
	const outOfScope = "namespace out of scope"
	for _, name := range set {
		if why := holds[name].why; !strings.Contains(waits, why) && (name == outOfScope || !slices.Contains(set, outOfScope)) {
			t.Errorf("Explain says %q, want %q", waits, why)
		}
	}
	if len(set) == 0 && len(x.Waits) > 0 {
		t.Errorf("without holds, Explain says %q", x.Waits)
	}
	for _, one := range w.engine.Status().Objects {
		if len(one.Waits) > len(x.Waits) || !slices.Equal(one.Waits, x.Waits[:len(one.Waits)]) {
			t.Errorf("the status page says %q, and Explain says %q", one.Waits, x.Waits)
		}
		isPaused := strings.Contains(waits, holds["pause by a peer"].why) || strings.Contains(waits, holds["pause by the annotation"].why)
		if looping := strings.Contains(waits, holds["loop of a handler"].why); one.Paused != isPaused || one.Looping != looping {
			t.Errorf("the status page says paused: %t, and looping: %t, want %t and %t", one.Paused, one.Looping, isPaused, looping)
		}
	}
}

func (w *holdWorld) endHolds(t *testing.T, order []string) {
	t.Helper()
	for _, name := range order {
		holds[name].end(t, w)
		wait(time.Second)
	}
	wait(5 * time.Minute)
}

func testHeldEdit(t *testing.T, set, order []string) {
	t.Helper()
	w, stop := startHeld(t, set)
	defer stop()
	w.mu.Lock()
	w.size = 2
	w.mu.Unlock()
	patch(t.Context(), t, w.users, w.obj, `{"spec":{"size":2}}`)
	wait(5 * time.Second)
	got := w.work()
	for _, what := range allWork {
		want := !slices.ContainsFunc(set, func(name string) bool { return !slices.Contains(holds[name].passes, what) })
		if (got[what] > 0) != want {
			t.Errorf("with these holds, %q happened %d times for the edit, want %t", what, got[what], want)
		}
	}
	w.expectExplained(t, set)
	w.endHolds(t, order)
	got = w.work()
	for _, what := range allWork {
		if n := got[what]; n == 0 || n > 1 && (what == "slow" || what == "update" && !slices.Contains(set, "loop of a handler")) {
			t.Errorf("after the holds, %q happened %d times for the edit", what, n)
		}
	}
	w.expectExplained(t, nil)
}

func testHeldDeletion(t *testing.T, set, order []string) {
	t.Helper()
	w, stop := startHeld(t, set)
	defer stop()
	must(t, w.users.Delete(t.Context(), w.obj.DeepCopy()))
	wait(5 * time.Second)
	want := !slices.ContainsFunc(set, func(name string) bool { return !holds[name].deletes })
	isGone := func() bool {
		return apierrors.IsNotFound(w.users.Get(t.Context(), client.ObjectKeyFromObject(w.obj), &v1.Widget{}))
	}
	if called, gone := w.is(&w.deleted), isGone(); called != want || gone != want {
		t.Errorf("with these holds, the delete handler was called: %t, and the object is gone: %t, want %t", called, gone, want)
	}
	if !want {
		w.expectExplained(t, slices.DeleteFunc(slices.Clone(set), func(name string) bool { return holds[name].deletes }))
	}
	w.set(&w.looping, false)
	for _, name := range order {
		if name != "pause by the annotation" || !isGone() {
			holds[name].end(t, w)
		}
		wait(time.Second)
	}
	wait(5 * time.Minute)
	if called, gone := w.is(&w.deleted), isGone(); !called || !gone {
		t.Errorf("after the holds, the delete handler was called: %t, and the object is gone: %t", called, gone)
	}
}
