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

// Given is what an operator finds.
type Given struct {
	// Now is when it starts: not before the year 2000, when the clocks of bubbles begin. Default: then.
	Now time.Time
	// Objects are there as they are given: with annotations, finalizers, deletionTimestamp and status.
	Objects []client.Object
	// Faults happen to its requests.
	Faults []Fault
	// Scheme has the Go types. Default: that of client-go, with the built-in kinds.
	Scheme *runtime.Scheme
	// CRDs are files and folders: see [CRDs].
	CRDs []string
	// For is how long it runs, in virtual time. Default: one second, for what is due at once, in as many passes as it takes.
	For time.Duration
}

// A Report is what an operator has done.
type Report struct {
	// Calls are those of handlers, in the order in which they began.
	Calls []Call
	// Writes are the requests that were to change something, but for those that post Events.
	Writes []Write
	// Events are those that were posted, also by the operator itself, such as HandlerFailed.
	Events []Event
	// RequeueAfter is how long after its last pass the first object is to be looked at again; 0: none is, unless something happens.
	RequeueAfter time.Duration
	// Errors are those of passes: faults of the API, which are tried again. Those of handlers are in Calls.
	Errors []error

	scheme  *runtime.Scheme
	objects []map[string]any
	engines []*engine.Engine
}

// Cycle runs an operator in memory, in virtual time, on what is given, for as long as [Given] says, and tells what it has
// done. It makes a bubble of testing/synctest, unless the test is in one: what the handlers wait for has to be
// made in there.
func Cycle(t *testing.T, given Given, opts ...kopf.Option) *Report {
	t.Helper()
	report := &Report{}
	run := func(t *testing.T) {
		t.Helper()
		report.run(t, given, opts)
	}
	if inBubble() {
		run(t)
	} else {
		synctest.Test(t, run)
	}
	return report
}

func (r *Report) run(t *testing.T, given Given, opts []kopf.Option) {
	t.Helper()
	advanceClock(t, given.Now)
	given.check(t)
	cluster := given.cluster(t)
	o := cluster.operator(given.Faults)
	o.start(t, func(mgr manager.Manager) error { return kopf.SetupWithManager(mgr, opts...) }, testLogger(t))
	length := given.For
	if length <= 0 {
		length = soon
	}
	<-time.After(length)
	synctest.Wait()
	r.RequeueAfter = o.tracker.requeue()
	o.Stop(t)
	r.scheme, r.objects = cluster.Scheme, cluster.server.All()
	r.Calls, r.Writes, r.Events = o.Calls(), o.Writes(), o.Events()
	r.Errors = o.tracker.reconcileErrors()
	r.engines, _ = o.tracker.state()
}

// awaitNow has the clock of the bubble reach a point in time.
func advanceClock(t testing.TB, now time.Time) {
	t.Helper()
	if now.IsZero() {
		return
	}
	wait := time.Until(now)
	if wait < 0 {
		t.Fatalf("kopftest: Now is %s, but the clock stands at %s already: it never goes back, and begins with the year 2000", now, time.Now())
	}
	<-time.After(wait)
}

// check finds objects of another time than the clock's: their handlers would be delayed for years, and nothing would be called.
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
			t.Fatalf("kopftest: the %T %q was there on %s, but the clock stands at %s: set Now of what is given", obj, obj.GetName(), latest, time.Now().UTC())
		}
	}
}

// recorded finds when handlers were selected, in the records of annotations.
var recorded = regexp.MustCompile(`"started": ?"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)`)

func (g Given) cluster(t testing.TB) *Cluster {
	t.Helper()
	return Memory(t, Types(schemeOr(g.Scheme)), CRDs(g.CRDs...), Objects(g.Objects...))
}

// Get fills in an object, by its name, as the operator has left it. False: there is none.
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
			t.Fatalf("kopftest: %s %s does not fit a %T: %v", gvk.Kind, obj.GetName(), obj, err)
		}
		return true
	}
	return false
}

// Record is the progress of a handler of an object, as the operator has left it; nil if there is none: the handler
// was not called, or all that there was to do is done.
func (r *Report) Record(t testing.TB, obj client.Object, id string) *progress.Record {
	t.Helper()
	if !r.Get(t, obj) {
		return nil
	}
	gvk, _ := apiutil.GVKForObject(obj, r.scheme) // Get would have failed
	for _, e := range r.engines {
		if e.GVK != gvk {
			continue
		}
		record, err := e.Store.Fetch(obj, id)
		if err != nil {
			t.Fatalf("kopftest: the record of %q cannot be read: %v", id, err)
		}
		return record
	}
	t.Fatalf("kopftest: the operator has no handlers for the kind %s", gvk.Kind)
	return nil
}

// Handlers are the ids of the handlers that were called, in order.
func (r *Report) Handlers() (ids []string) {
	for _, call := range r.Calls {
		ids = append(ids, call.Handler)
	}
	return ids
}

// Requests are the writes in short: "patch databases/orders status".
func (r *Report) Requests() (short []string) {
	for _, w := range r.Writes {
		short = append(short, w.String())
	}
	return short
}

// String tells the calls and the writes.
func (r *Report) String() string { return fmt.Sprintf("calls: %q, writes: %q", r.Calls, r.Requests()) }
