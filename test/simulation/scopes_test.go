package simulation

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var scopeSeeds = flag.Uint64("scopes", 20, "number of simulations in which kinds and namespaces come and go")

const (
	scopeNamespaces = 3
	scopeSteps      = 80
	managedLabel    = "managed"
)

// A scopeWorld is a simulation in which kinds and namespaces come and go.
type scopeWorld struct {
	cluster *kopftest.Cluster
	random  *rand.Rand
	// handlers decides how long handlers take; it is protected by mu
	handlers *rand.Rand
	kinds    *hiddenKinds
	mu       sync.Mutex
	handled  map[string][]string // what was handled of each object, by uid: "3->4", "deleted"
	running  map[string]int      // the number of daemons that are running, by uid
	forced   map[string]bool     // the objects whose finalizers a user has removed
	wrong    []string            // what went wrong during calls
	stable   bool                // only namespaces come and go
	faulty   bool                // requests may fail
	ended    bool                // calls may be repeated
	operator *kopftest.Operator
}

// hiddenKinds hides widgets in the discovery, and refuses requests for them, as an API server without the definition does.
type hiddenKinds struct {
	next   http.RoundTripper
	mu     sync.Mutex
	hidden bool
}

func (k *hiddenKinds) set(hidden bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hidden = hidden
}

// RoundTrip implements [http.RoundTripper].
func (k *hiddenKinds) RoundTrip(r *http.Request) (*http.Response, error) {
	k.mu.Lock()
	hidden := k.hidden
	k.mu.Unlock()
	if path := strings.Trim(r.URL.Path, "/"); hidden && path == "apis/"+v1.GroupVersion.String() {
		return answer(r, http.StatusOK, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: v1.GroupVersion.String(),
		})
	}
	return k.next.RoundTrip(r)
}

func scopeScheme() *runtime.Scheme {
	scheme := relatedScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Namespace{}, &corev1.NamespaceList{})
	return scheme
}

// work takes some time. Afterwards, the cache of the operator must still have the object, unless it was deleted.
func (w *scopeWorld) work(ctx context.Context, req *kopf.Request[widget]) {
	w.mu.Lock()
	took := time.Duration(w.handlers.IntN(8000)) * time.Millisecond
	w.mu.Unlock()
	<-time.After(took)
	err := req.Client.Get(context.WithoutCancel(ctx), client.ObjectKeyFromObject(req.Object), &v1.Widget{})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && !apierrors.IsNotFound(err) && !w.forced[string(req.Object.UID)] { // nothing waits for a daemon whose object is gone
		w.wrong = append(w.wrong, fmt.Sprintf("%s: a handler cannot read its object: %v", req.Object.UID, err))
	}
}

func (w *scopeWorld) note(obj widget, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handled[string(obj.UID)] = append(w.handled[string(obj.UID)], what)
}

func (w *scopeWorld) options() []kopf.Option {
	return []kopf.Option{
		kopf.WithNamespaceFunc(func(ns *corev1.Namespace) bool { return ns.Labels[managedLabel] != "" }),
		kopf.For(&v1.Widget{}, kopf.WhenServed()).
			OnCreate("create", func(ctx context.Context, req *kopf.Request[widget]) error {
				w.work(ctx, req)
				w.note(req.Object, "created")
				return nil
			}).
			OnUpdate("size", func(ctx context.Context, req *kopf.Request[widget]) error {
				w.work(ctx, req)
				w.note(req.Object, fmt.Sprintf("%v->%v", req.Diff[0].Old, req.Diff[0].New))
				return nil
			}, kopf.Field("spec.size")).
			OnDelete("delete", func(ctx context.Context, req *kopf.Request[widget]) error {
				w.work(ctx, req)
				w.note(req.Object, "deleted")
				return nil
			}).
			Daemon("daemon", daemons.Daemon{CancellationTimeout: new(time.Minute)}, func(ctx context.Context, req *kopf.Request[widget]) error {
				w.count(req.Object, 1)
				defer w.count(req.Object, -1)
				<-ctx.Done()
				w.work(ctx, req)
				return nil
			}),
	}
}

func (w *scopeWorld) count(obj widget, change int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[string(obj.UID)] += change; w.running[string(obj.UID)] > 1 && !w.ended {
		w.wrong = append(w.wrong, fmt.Sprintf("%s: two daemons are running", obj.UID))
	}
}

// TestScopes_EachChangeOnce lets namespaces lose and gain their label, and hides the kind at times, while users change and delete objects, and while the operator
// restarts, crashes, and loses requests. In the end, each change was handled once, and each deletion that began in scope has ended.
func TestScopes_EachChangeOnce(t *testing.T) {
	for seed := range seeds(*scopeSeeds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				for _, violation := range simulateScopes(t, rand.New(rand.NewPCG(seed, 20)), nil) {
					t.Error(violation)
				}
			})
		})
	}
}

// simulateScopes returns the violations. wrap changes the transport of the operator, if it is not nil.
func simulateScopes(t *testing.T, random *rand.Rand, wrap func(http.RoundTripper) http.RoundTripper) (violations []string) {
	w := &scopeWorld{random: random, handlers: rand.New(rand.NewPCG(random.Uint64(), 0)), handled: map[string][]string{}, running: map[string]int{}, forced: map[string]bool{}}
	w.stable = random.IntN(2) == 0
	w.cluster = kopftest.Memory(t, kopftest.Types(scopeScheme()))
	w.kinds = &hiddenKinds{next: w.cluster.Config.Transport}
	w.cluster.Config.Transport = w.kinds
	if wrap != nil {
		w.cluster.Config.Transport = wrap(w.kinds)
	}
	for i := range scopeNamespaces {
		w.cluster.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: scopeNamespace(i), Labels: map[string]string{managedLabel: "true"}}})
	}
	w.operator = w.cluster.Run(t, w.options()...)
	for range scopeSteps {
		<-time.After(time.Duration(random.Int64N(int64(12 * time.Second))))
		if !w.stable && random.IntN(15) == 0 {
			w.end(t)
			w.change(t)
			w.operator = w.cluster.Run(t, w.options()...)
		}
		w.change(t)
	}
	w.kinds.set(false)
	for i := range scopeNamespaces {
		w.label(t, i, "true")
	}
	<-time.After(2 * time.Minute) // the discovery finds the kind
	w.operator.RunUntilQuiet(t)
	violations = w.violations(t)
	w.operator.Stop(t)
	for uid, n := range w.running {
		if n != 0 {
			violations = append(violations, fmt.Sprintf("%s: %d daemons are left after the end", uid, n))
		}
	}
	return violations
}

// end stops the operator, or lets it crash. In both cases, the API server may have refused the outcomes until then.
func (w *scopeWorld) end(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	if w.random.IntN(2) == 0 {
		w.operator.Stop(t)
	} else {
		w.operator.Crash(t)
	}
}

func scopeNamespace(i int) string { return fmt.Sprintf("ns-%d", i) }

// change makes one change of a user.
func (w *scopeWorld) change(t *testing.T) {
	t.Helper()
	n := w.random.IntN(scopeNamespaces)
	obj := &v1.Widget{ObjectMeta: metav1.ObjectMeta{Namespace: scopeNamespace(n), Name: widgetName(w.random.IntN(2))}}
	ignore := func(err error) {
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	switch w.random.IntN(20) {
	case 0, 1, 2:
		obj.Spec.Size = 1
		ignore(w.cluster.Client.Create(t.Context(), obj))
	case 3, 4, 5, 6, 7, 8:
		if err := w.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			ignore(err)
			return
		}
		ignore(w.cluster.Client.Patch(t.Context(), obj, rawPatch(fmt.Sprintf(`{"spec":{"size":%d}}`, obj.Spec.Size+1))))
	case 9:
		ignore(w.cluster.Client.Delete(t.Context(), obj))
	case 10, 11:
		w.label(t, n, "")
	case 12, 13, 14:
		w.label(t, n, "true")
	case 15:
		w.faulty = true
		w.operator.InjectFaults(relatedFaults(w.random)...)
	case 16:
		w.faulty = true
		w.operator.InjectFaults(kopftest.Fault{Verb: "patch", Times: 1 + w.random.IntN(20), Code: http.StatusInternalServerError})
	case 17, 18:
		if err := w.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			ignore(err)
			return
		}
		w.mu.Lock()
		w.forced[string(obj.UID)] = true
		w.mu.Unlock()
		ignore(w.cluster.Client.Delete(t.Context(), obj))
		ignore(w.cluster.Client.Patch(t.Context(), obj, rawPatch(`{"metadata":{"finalizers":null}}`)))
	default:
		if w.stable {
			w.label(t, n, "")
			return
		}
		w.mu.Lock()
		w.ended = w.ended || w.faulty // the outcomes that the API server has refused are lost when the kind stops
		w.mu.Unlock()
		w.kinds.set(w.random.IntN(3) == 0)
	}
}

func (w *scopeWorld) label(t *testing.T, n int, value string) {
	t.Helper()
	text := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, managedLabel, value)
	must(t, w.cluster.Client.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: scopeNamespace(n)}}, rawPatch(text)))
}

func (w *scopeWorld) violations(t *testing.T) (violations []string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	list := &v1.WidgetList{}
	must(t, w.cluster.Client.List(t.Context(), list))
	violations = w.wrong
	existing := map[string]bool{}
	for _, obj := range list.Items {
		uid := string(obj.UID)
		existing[uid] = true
		if obj.DeletionTimestamp != nil {
			violations = append(violations, fmt.Sprintf("%s: its deletion does not end", uid))
		}
		if w.running[uid] != 1 {
			violations = append(violations, fmt.Sprintf("%s: %d daemons are running, want 1", uid, w.running[uid]))
		}
	}
	for uid, calls := range w.handled {
		if fault := firstFault(calls, w.ended); fault != "" {
			violations = append(violations, fmt.Sprintf("%s: %q does not follow what was handled before: %v", uid, fault, calls))
		}
		if last := calls[len(calls)-1]; (last == "deleted") == existing[uid] && !w.forced[uid] {
			violations = append(violations, fmt.Sprintf("%s: the last call is %q, and the object exists: %v", uid, last, existing[uid]))
		}
	}
	for uid, n := range w.running {
		if n != 0 && !existing[uid] {
			violations = append(violations, fmt.Sprintf("%s: %d daemons are running after its deletion", uid, n))
		}
	}
	for uid := range existing {
		if len(w.handled[uid]) == 0 {
			violations = append(violations, uid+" was not handled")
		}
	}
	return violations
}

// firstFault returns the first call that does not begin where the call before has ended; empty if there is no such call. After an end of the operator, a call may be repeated.
func firstFault(calls []string, repeats bool) string {
	from, to := "", "" // of the last update; empty if it is not known
	for i, call := range calls {
		before, after, isUpdate := strings.Cut(call, "->")
		switch {
		case i > 0 && repeats && (call == calls[i-1] || isUpdate && before == from):
		case i > 0 && calls[i-1] == "deleted", i > 0 && call == "created", isUpdate && to != "" && before != to:
			return call
		}
		from, to = before, after
	}
	return ""
}

// TestScopes_FindPlantedBugs checks that the simulations find bugs of the engine in the release of objects.
func TestScopes_FindPlantedBugs(t *testing.T) {
	const file = "internal/engine/scope.go"
	for _, bug := range []struct {
		name, shows string
		edit        edit
	}{
		{
			"a namespace is removed before its work has ended", "a handler cannot read its object",
			edit{file, "if e.queue.ended.Load() || len(", "if true || len("},
		},
		{
			"pending outcomes are not written", "does not follow what was handled before",
			edit{file, "if r.details.Pending == nil {", "if true || r.details.Pending == nil {"},
		},
	} {
		t.Run(bug.name, func(t *testing.T) {
			findBug(t, []edit{bug.edit}, bug.shows, "-test.run=^TestScopes_EachChangeOnce$", "-scopes=120")
		})
	}
}
