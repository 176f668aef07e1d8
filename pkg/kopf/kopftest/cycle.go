package kopftest

import (
	"fmt"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Given is the initial state for an operator.
type Given struct {
	// Now is the start time of the operator. It must not be before the year 2000. Default: the start time of a bubble, see [Memory].
	Now time.Time
	// Objects exist before the operator starts. They keep their annotations, finalizers, deletionTimestamp and status.
	Objects []client.Object
	// Faults apply to the operator's requests.
	Faults []Fault
	// Scheme contains the Go types. Default: the scheme of client-go with the built-in kinds.
	Scheme *runtime.Scheme
	// CRDs are files and directories with CustomResourceDefinitions: see [CRDs].
	CRDs []string
	// Duration is how long the operator runs, in virtual time. Default: one second, which is enough for all work that is due immediately.
	Duration time.Duration
}

// A Report contains an operator's handler calls, writes and Events.
type Report struct {
	// Calls are the handler calls in the order in which they started.
	Calls []Call
	// Writes are the operator's writes, except for Events.
	Writes []Write
	// Events are the created Events, including the operator's own, such as HandlerFailed.
	Events []Event
	// RequeueAfter is the delay until the next requeue, counted from the end of its reconcile and rounded to milliseconds. It is 0 if no
	// object is requeued.
	RequeueAfter time.Duration
	// Errors are the errors that reconciles have returned, for example after failed requests. Handler errors are in Calls.
	Errors []error

	scheme  *runtime.Scheme
	objects []map[string]any
	engines []*engine.Engine
}

// Cycle runs an operator in memory and in virtual time, starting from the given state, and reports its handler calls, writes and Events. It
// uses the test's testing/synctest bubble, or else a new one. Handlers may only wait for channels and timers that were created in the same
// bubble.
func Cycle(t *testing.T, given Given, opts ...kopf.Option) *Report {
	t.Helper()
	return CycleManager(t, given, func(mgr manager.Manager) error { return kopf.SetupWithManager(mgr, opts...) })
}

// CycleManager is [Cycle] for an operator with its own setup function, such as the one in main.go, or for handlers that need the manager.
// The functions in change modify the manager's options.
func CycleManager(t *testing.T, given Given, setup func(manager.Manager) error, change ...func(*manager.Options)) *Report {
	t.Helper()
	report := &Report{}
	run := func(t *testing.T) {
		t.Helper()
		report.run(t, given, setup, change)
	}
	if inBubble() {
		run(t)
	} else {
		synctest.Test(t, run)
	}
	return report
}

func (r *Report) run(t *testing.T, given Given, setup func(manager.Manager) error, change []func(*manager.Options)) {
	t.Helper()
	advanceClock(t, given.Now)
	given.check(t)
	cluster := given.cluster(t)
	o := cluster.operator(given.Faults)
	o.start(t, setup, testLogger(t), change...)
	length := given.Duration
	if length <= 0 {
		length = soon
	}
	<-time.After(length)
	synctest.Wait()
	r.RequeueAfter = o.tracker.requeue().Round(time.Millisecond) // stored times lose nanoseconds
	o.Stop(t)
	r.scheme, r.objects = cluster.Scheme, cluster.server.All()
	r.Calls, r.Writes, r.Events = o.Calls(), o.Writes(), o.Events()
	r.Errors = o.tracker.reconcileErrors()
	r.engines, _ = o.tracker.state()
}

// advanceClock waits until the clock of the bubble shows the given time.
func advanceClock(t testing.TB, now time.Time) {
	t.Helper()
	if now.IsZero() {
		return
	}
	wait := time.Until(now)
	if wait < 0 {
		t.Fatalf("kopftest: Now is %s, which is before the time of the test clock, %s: set Now to a later time", now, time.Now())
	}
	<-time.After(wait)
}

// check fails the test if an object or one of its records is more than a day newer than the clock, because the engine would delay its
// handlers.
func (g Given) check(t testing.TB) {
	t.Helper()
	for _, obj := range g.Objects {
		latest := obj.GetCreationTimestamp().Time
		for _, text := range obj.GetAnnotations() {
			for _, at := range recorded.FindAllStringSubmatch(text, -1) {
				if began, err := time.Parse("2006-01-02T15:04:05", at[1]); err == nil && began.After(latest) {
					latest = began
				}
			}
		}
		if latest.After(time.Now().Add(24 * time.Hour)) {
			t.Fatalf("kopftest: the %T %q is from %s, which is after the time of the test clock, %s: set Given.Now", obj, obj.GetName(), latest, time.Now().UTC())
		}
	}
}

// recorded matches the handlers' start times in annotations.
var recorded = regexp.MustCompile(`"started": ?"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)`)

func (g Given) cluster(t testing.TB) *Cluster {
	t.Helper()
	return Memory(t, Types(schemeOr(g.Scheme)), CRDs(g.CRDs...), Objects(g.Objects...))
}

// Get sets obj to the object with the same name, in its state at the end of the run. If obj has no namespace, only the kind and the name
// are compared. Get returns false if the object doesn't exist.
func (r *Report) Get(t testing.TB, obj client.Object) bool {
	t.Helper()
	gvk, err := apiutil.GVKForObject(obj, r.scheme)
	if err != nil {
		t.Fatalf("kopftest: %v", err)
	}
	for _, content := range r.objects {
		found := newUnstructured(content)
		if found.GroupVersionKind() != gvk || found.GetName() != obj.GetName() || obj.GetNamespace() != "" && found.GetNamespace() != obj.GetNamespace() {
			continue
		}
		if err := setContent(obj, content); err != nil {
			t.Fatalf("kopftest: decode %s %s into a %T: %v", gvk.Kind, obj.GetName(), obj, err)
		}
		return true
	}
	return false
}

// Record returns a handler's stored progress for an object. It returns nil if no progress is stored, for example after all handlers have
// finished.
func (r *Report) Record(t testing.TB, obj client.Object, id string) *progress.Record {
	t.Helper()
	if !r.Get(t, obj) {
		return nil
	}
	gvk, _ := apiutil.GVKForObject(obj, r.scheme) // can't fail after Get
	for _, e := range r.engines {
		if e.GVK != gvk {
			continue
		}
		record, err := e.Store.Fetch(obj, id)
		if err != nil {
			t.Fatalf("kopftest: read the record of handler %q: %v", id, err)
		}
		return record
	}
	t.Fatalf("kopftest: the operator has no handlers for kind %s", gvk.Kind)
	return nil
}

// Handlers returns the ids of the called handlers in order. With reasons, it only includes calls with one of them.
func (r *Report) Handlers(reasons ...kopf.Reason) (ids []string) {
	for _, call := range withReasons(r.Calls, reasons) {
		ids = append(ids, call.Handler)
	}
	return ids
}

// Requests returns the writes in their short form, such as "patch databases/orders status".
func (r *Report) Requests() (short []string) {
	for _, w := range r.Writes {
		short = append(short, w.String())
	}
	return short
}

// String returns the calls and the writes.
func (r *Report) String() string { return fmt.Sprintf("calls: %q, writes: %q", r.Calls, r.Requests()) }
