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
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

type mapRequest = kopf.Request[configMap]

// busy is a sub-handler that never finishes. It is retried every minute.
func busy(context.Context, *mapRequest) error {
	return kopf.Temporary(errors.New("the cloud is busy"), time.Minute)
}

// declares returns a handler that declares one sub-handler.
func declares(id string, sub kopf.Handler[configMap], opts ...kopf.HandlerOption) kopf.Handler[configMap] {
	return func(_ context.Context, req *mapRequest) error {
		req.Sub(id, sub, opts...)
		return nil
	}
}

// countCalls returns the number of calls of a handler.
func countCalls(calls []kopftest.Call, id string) (n int) {
	for _, call := range calls {
		if call.Handler == id {
			n++
		}
	}
	return n
}

// logLines collects the log lines of reconciles.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

// option makes the operator log to the lines.
func (l *logLines) option() kopf.Option {
	logger := funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, args)
	}, funcr.Options{})
	return kopf.WithReconcilerWrapper(func(next reconcile.Reconciler) reconcile.Reconciler {
		return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			return next.Reconcile(log.IntoContext(ctx, logger), req)
		})
	})
}

// with returns the lines that contain all the texts.
func (l *logLines) with(texts ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			found = append(found, line)
		}
	}
	return found
}

func TestTimeout_HoldsForSubHandlers(t *testing.T) { // SUB-14
	const limit = 10 * time.Minute
	last := func(_ context.Context, req *mapRequest) error {
		if req.Sub("busy", busy); !req.AwaitSubs() {
			return nil
		}
		return errors.New("called after an unfinished sub-handler")
	}
	for name, test := range map[string]struct {
		handler kopf.Handler[configMap]
		opts    []kopf.HandlerOption
		busy    string // the id of the sub-handler that never finishes
		calls   int    // the number of its calls
		failed  string // the id of the handler that fails by its timeout
		ended   time.Duration
	}{
		"one level":                {declares("busy", busy), nil, "parent/busy", 10, "parent", 9 * time.Minute},
		"AwaitSubs":                {last, nil, "parent/busy", 10, "parent", 9 * time.Minute},
		"three levels":             {declares("a", declares("b", declares("busy", busy))), nil, "parent/a/b/busy", 10, "parent", 9 * time.Minute},
		"a shorter one of a level": {declares("a", declares("busy", busy), kopf.Timeout(5*time.Minute)), nil, "parent/a/busy", 5, "parent/a", 4 * time.Minute},
		"retries are not used up":  {declares("busy", busy), []kopf.HandlerOption{kopf.Retries(1)}, "parent/busy", 10, "parent", 9 * time.Minute},
		"a sub-handler that is delayed for longer": {declares("busy", func(context.Context, *mapRequest) error {
			return kopf.Temporary(errors.New("the cloud is busy"), time.Hour)
		}), nil, "parent/busy", 1, "parent", 0},
	} {
		t.Run(name, func(t *testing.T) {
			lines := &logLines{}
			report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{newConfigMap("one")}, Duration: 3 * time.Hour},
				lines.option(),
				kopf.For(&corev1.ConfigMap{}).
					OnCreate("parent", test.handler, append(test.opts, kopf.Timeout(limit))...).
					OnCreate("next", succeed))
			if n := countCalls(report.Calls, test.busy); n != test.calls {
				t.Errorf("the sub-handler was called %d times, want %d", n, test.calls)
			}
			if end := report.Calls[len(report.Calls)-1].Began.Sub(report.Calls[0].Began); end > test.ended+time.Second {
				t.Errorf("the last call was after %s, want it after %s", end, test.ended)
			}
			if record := report.Record(t, newConfigMap("one"), "parent"); record != nil {
				t.Errorf("the cycle has not ended: %+v", record)
			}
			var events []string
			for _, event := range report.Events {
				events = append(events, event.Reason+" "+event.Action+" "+event.Note)
			}
			want := fmt.Sprintf("HandlerFailed %s %[1]s: gave up", test.failed)
			if len(events) != 1 || !strings.HasPrefix(events[0], want) || !strings.Contains(events[0], "timeout") ||
				!strings.Contains(events[0], test.busy) || !strings.Contains(events[0], "the cloud is busy") {
				t.Errorf("Events = %q, want one that begins with %q and names the sub-handler and its error", events, want)
			}
			if got := lines.with("Sub-handlers", test.busy, "the cloud is busy"); len(got) != 1 {
				t.Errorf("log lines about the unfinished sub-handler: %q, want one", got)
			}
		})
	}
}

func TestTimeout_OfSubHandlersBlocksNoDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).
			OnDelete("parent", declares("busy", busy), kopf.Timeout(10*time.Minute)))
		operator.RunUntilQuiet(t)
		cluster.Delete(t, newConfigMap("one"))
		<-time.After(5 * time.Minute)
		operator.Crash(t) // the timeout survives a restart
		operator = cluster.Run(t, kopf.For(&corev1.ConfigMap{}).
			OnDelete("parent", declares("busy", busy), kopf.Timeout(10*time.Minute)))
		<-time.After(6 * time.Minute)
		if _, err := kopftest.Object(t, cluster, newConfigMap("one"))(); err == nil {
			t.Error("the object still exists after the timeout of its delete handler")
		}
		if n := countCalls(operator.Calls(), "parent/busy"); n < 4 || n > 5 {
			t.Errorf("the sub-handler was called %d times after the restart, want 4 or 5", n)
		}
	})
}

func TestTimeout_StopsSlowSubHandlers(t *testing.T) {
	slow := func(context.Context, *mapRequest) error {
		<-time.After(4 * time.Minute)
		return nil
	}
	for name, test := range map[string]struct {
		handler kopf.Handler[configMap]
		want    []string
	}{
		"one level": {
			func(_ context.Context, req *mapRequest) error {
				for _, id := range []string{"a", "b", "c", "d", "e"} {
					req.Sub(id, slow)
				}
				return nil
			},
			[]string{"parent", "parent/a", "parent/b", "parent/c"},
		},
		"two levels": {
			func(_ context.Context, req *mapRequest) error {
				req.Sub("a", declares("x", slow))
				req.Sub("b", func(_ context.Context, req *mapRequest) error {
					req.Sub("x", slow)
					req.Sub("y", slow)
					req.Sub("z", slow)
					return nil
				})
				req.Sub("c", slow)
				return nil
			},
			[]string{"parent", "parent/a", "parent/a/x", "parent/b", "parent/b/x", "parent/b/y"},
		},
		"groups": {
			func(_ context.Context, req *mapRequest) error {
				for _, id := range []string{"a", "b", "c", "d", "e"} {
					if req.Sub(id, slow); !req.AwaitSubs() {
						return nil
					}
				}
				return nil
			},
			[]string{"parent", "parent/a", "parent", "parent/b", "parent", "parent/c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{newConfigMap("one")}, Duration: time.Hour},
				kopf.For(&corev1.ConfigMap{}).OnCreate("parent", test.handler, kopf.Timeout(10*time.Minute)))
			if got := report.Handlers(); !slices.Equal(got, test.want) {
				t.Errorf("calls = %q, want %q", got, test.want)
			}
		})
	}
}

// The first attempt is made even after the timeout, also of sub-handlers: "late" waits for the first handler.
func TestTimeout_FirstAttemptOfSubHandlers(t *testing.T) {
	first := func(_ context.Context, req *mapRequest) error {
		if req.Attempt.Number < 3 {
			return kopf.Temporary(errors.New("not yet"), 10*time.Minute)
		}
		return nil
	}
	for name, test := range map[string]struct {
		late kopf.Handler[configMap]
		want []string // without the calls of the first handler
	}{
		"one group": {
			func(_ context.Context, req *mapRequest) error {
				req.Sub("a", succeed)
				req.Sub("b", busy)
				req.Sub("c", succeed)
				return nil
			},
			[]string{"late", "late/a", "late/b", "late/c"},
		},
		"several groups": {
			func(_ context.Context, req *mapRequest) error {
				for _, id := range []string{"a", "b", "c"} {
					if req.Sub(id, declares("x", succeed)); !req.AwaitSubs() {
						return nil
					}
				}
				req.Sub("d", busy)
				return nil
			},
			[]string{"late", "late/a", "late/a/x", "late", "late/b", "late/b/x", "late", "late/c", "late/c/x", "late", "late/d"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{newConfigMap("one")}, Duration: 3 * time.Hour},
				kopf.For(&corev1.ConfigMap{}).OnCreate("first", first).OnCreate("late", test.late, kopf.After("first"), kopf.Timeout(10*time.Minute)))
			if got := slices.DeleteFunc(report.Handlers(), func(id string) bool { return id == "first" }); !slices.Equal(got, test.want) {
				t.Errorf("calls = %q, want %q", got, test.want)
			}
			if record := report.Record(t, newConfigMap("one"), "late"); record != nil {
				t.Errorf("the cycle has not ended: %+v", record)
			}
		})
	}
}

// While another handler keeps the cycle open, the records of the unfinished sub-handlers are final, and handlers that come after their parent are skipped.
func TestTimeout_RecordsOfUnfinishedSubHandlers(t *testing.T) {
	report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{newConfigMap("one")}, Duration: time.Hour},
		kopf.For(&corev1.ConfigMap{}).
			OnCreate("parent", declares("a", declares("busy", busy)), kopf.Timeout(10*time.Minute)).
			OnCreate("after", succeed, kopf.After("parent")).
			OnCreate("other", busy))
	for id, message := range map[string]string{
		"parent":        "timeout of 10m0s",
		"parent/a":      `"parent" has failed`,
		"parent/a/busy": "the cloud is busy",
		"after":         `it comes after "parent"`,
	} {
		record := report.Record(t, newConfigMap("one"), id)
		if record == nil || !record.Failure || record.Stopped.IsZero() || !strings.Contains(record.Message, message) {
			t.Errorf("record of %s: %+v, want a failure with %q", id, record, message)
		}
	}
	if slices.Contains(report.Handlers(), "after") {
		t.Error("a handler that comes after the failed one was called")
	}
}

// A handler that fails for good takes its unfinished sub-handlers with it; one that will be retried does not.
func TestSubHandlers_OfFailedParent(t *testing.T) {
	for name, test := range map[string]struct {
		err     error
		opts    []kopf.HandlerOption
		failure bool
	}{
		"a permanent error":  {kopf.Permanent(errors.New("no")), nil, true},
		"the last attempt":   {errors.New("no"), []kopf.HandlerOption{kopf.Retries(1)}, true},
		"a temporary error":  {kopf.Temporary(errors.New("no"), 10*time.Hour), nil, false},
		"an ignored failure": {errors.New("no"), []kopf.HandlerOption{kopf.ErrorMode(progress.ErrorsIgnored)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			parent := func(_ context.Context, req *mapRequest) error {
				req.Sub("busy", busy)
				if calls++; calls > 2 {
					return test.err
				}
				return nil
			}
			report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{newConfigMap("one")}, Duration: time.Hour},
				kopf.For(&corev1.ConfigMap{}).OnCreate("parent", parent, test.opts...).OnCreate("other", busy))
			if n := countCalls(report.Calls, "parent/busy"); n != 2 {
				t.Errorf("the sub-handler was called %d times, want 2", n)
			}
			if record := report.Record(t, newConfigMap("one"), "parent/busy"); record == nil || record.Failure != test.failure {
				t.Errorf("record of the sub-handler: %+v, want failure: %t", record, test.failure)
			}
		})
	}
}

// Ten groups, whose sub-handlers fail once: the parent is called once for each attempt of a sub-handler, and once more at the beginning.
func TestAwaitSubs_LaterReconciles(t *testing.T) {
	once := func(_ context.Context, req *mapRequest) error {
		if req.Attempt.Number == 0 {
			return kopf.Temporary(errors.New("not yet"), time.Minute)
		}
		return nil
	}
	parent := func(_ context.Context, req *mapRequest) error {
		for i := range 10 {
			req.Sub(fmt.Sprintf("sub-%d", i), once)
			req.Sub(fmt.Sprintf("other-%d", i), succeed, kopf.Label("missing")) // its filter does not match
			if !req.AwaitSubs() {
				return nil
			}
		}
		return nil
	}
	report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{newConfigMap("one")}, Duration: time.Hour},
		kopf.For(&corev1.ConfigMap{}).OnCreate("parent", parent))
	calls := countCalls(report.Calls, "parent")
	if subs := len(report.Calls) - calls; subs != 20 || calls != 21 {
		t.Errorf("%d calls of sub-handlers and %d of their parent, want 20 and 21", subs, calls)
	}
	if record := report.Record(t, newConfigMap("one"), "parent"); record != nil {
		t.Errorf("the cycle has not ended: %+v", record)
	}
}

// A success for an earlier cause does not count.
func TestAwaitSubs_OtherCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
		var finished []string
		parent := func(_ context.Context, req *mapRequest) error {
			req.Sub("quick", succeed)
			finished = append(finished, fmt.Sprintf("%s %t", req.Reason, req.AwaitSubs()))
			if !req.AwaitSubs() {
				return nil
			}
			if req.Sub("late", busy); req.Reason == kopf.ReasonCreate {
				req.AwaitSubs()
			}
			return nil
		}
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).
			On("parent", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonDelete}, parent, kopf.Timeout(150*time.Second)))
		<-time.After(90 * time.Second)
		cluster.Delete(t, newConfigMap("one"))
		<-time.After(40 * time.Second) // the delay of the unfinished sub-handler
		operator.Stop(t)
		want := []string{"create false", "create true", "create true", "delete false", "delete true"}
		if !slices.Equal(finished, want) {
			t.Errorf("AwaitSubs = %q, want %q", finished, want)
		}
	})
}

// receivedField describes what a handler receives of its field.
func receivedField(req *mapRequest) string {
	before, after := req.Field()
	return fmt.Sprintf("%s %v -> %v %s", req.Handler, before, after, req.Diff)
}

func TestSubHandlers_FieldOfParent(t *testing.T) { // DIFF-08
	before, after := newConfigMap("one"), newConfigMap("one")
	before.Data = map[string]string{"size": "1", "color": "red"}
	after.Data = map[string]string{"size": "2", "color": "blue"}
	var got []string
	note := func(_ context.Context, req *mapRequest) error {
		got = append(got, receivedField(req))
		return nil
	}
	handler := func(ctx context.Context, req *mapRequest) error {
		req.Sub("a", note)
		req.Sub("b", func(ctx context.Context, req *mapRequest) error {
			req.Sub("c", note)
			return note(ctx, req)
		})
		req.Sub("own", note, kopf.Field("data.color"))
		return note(ctx, req)
	}
	size := diff.Diff{{Op: diff.Change, Old: "1", New: "2"}}.String()
	color := diff.Diff{{Op: diff.Change, Old: "red", New: "blue"}}.String()
	added := diff.Diff{{Op: diff.Add, New: "1"}}.String()
	want := []string{
		"fn/data.size 1 -> 2 " + size,
		"fn/data.size/a 1 -> 2 " + size,
		"fn/data.size/b 1 -> 2 " + size,
		"fn/data.size/b/c 1 -> 2 " + size,
		"fn/data.size/own red -> blue " + color,
	}
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t)
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnField("fn", "data.size", handler))
		cluster.Create(t, before.DeepCopy())
		operator.RunUntilQuiet(t)
		if len(got) != len(want) || got[1] != "fn/data.size/a <nil> -> 1 "+added {
			t.Errorf("after the creation, the handlers have received %q", got)
		}
		got = nil
		kopftest.Edit(t, cluster, newConfigMap("one"), func(obj configMap) { obj.Data = after.Data })
		operator.RunUntilQuiet(t)
		if !slices.Equal(got, want) {
			t.Errorf("the handlers have received\n%q, want\n%q", got, want)
		}
	})
	t.Run("Invoke", func(t *testing.T) {
		got = nil
		inv := kopftest.Invoke(t, handler, after, kopftest.WithOldObject(before), kopftest.WithField("data.size"))
		inv.InvokeSubHandler(t, "a")
		inv.InvokeSubHandler(t, "b").InvokeSubHandler(t, "c")
		inv.InvokeSubHandler(t, "own")
		for i := range want {
			want[i] = strings.Replace(want[i], "fn/data.size", "handler", 1)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the handlers have received\n%q, want\n%q", got, want)
		}
	})
}

// Sub-handlers of any depth are called for the changes of their parents: their own field must have changed, and may have conditions on the change.
func TestSubHandlers_ChangedField(t *testing.T) { // HND-09, SUB-15
	obj := newConfigMap("one")
	obj.Data = map[string]string{"size": "1", "color": "red"}
	handler := func(_ context.Context, req *mapRequest) error {
		req.Sub("a", func(_ context.Context, req *mapRequest) error {
			req.Sub("size", succeed, kopf.Field("data.size", filter.To("2")))
			req.Sub("color", succeed, kopf.Field("data.color"))
			return nil
		})
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t)
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnUpdate("parent", handler))
		cluster.Create(t, obj)
		operator.RunUntilQuiet(t)
		kopftest.Edit(t, cluster, newConfigMap("one"), func(obj configMap) { obj.Data["size"] = "2" })
		operator.RunUntilQuiet(t)
		if got, want := operator.Handlers(newConfigMap("one")), []string{"parent", "parent/a", "parent/a/size"}; !slices.Equal(got, want) {
			t.Errorf("calls = %q, want %q", got, want)
		}
	})
}

// If only a condition has changed, the sub-handlers of its handler are called.
func TestSubHandlers_OfOnCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		cluster := kopftest.Memory(t)
		operator := cluster.Run(t, kopf.For(&appsv1.Deployment{}).
			OnCondition("avail", "Available", func(_ context.Context, req *kopf.Request[deployment]) error {
				req.Sub("a", func(_ context.Context, req *kopf.Request[deployment]) error {
					before, after := req.Field()
					got = append(got, fmt.Sprintf("%v -> %v", before, after))
					return nil
				})
				return nil
			}))
		cluster.Create(t, loopingDeployment("a"))
		operator.RunUntilQuiet(t)
		got = nil
		kopftest.Edit(t, cluster, loopingDeployment("a"), func(obj deployment) {
			set, err := conditions.For(obj)
			if err != nil {
				t.Error(err)
			}
			set.True("Available", "Ready", "")
		})
		operator.RunUntilQuiet(t)
		if want := []string{"<nil> -> True"}; !slices.Equal(got, want) {
			t.Errorf("the sub-handler has received %q, want %q", got, want)
		}
	})
}

func TestSubHandlers_NotDeclaredAgain(t *testing.T) {
	calls := 0
	parent := func(_ context.Context, req *mapRequest) error {
		calls++
		if calls == 1 {
			req.Sub("done", succeed)
			req.Sub("lost", declares("deep", busy))
			req.Sub("lost-too", busy)
		}
		req.Sub("filtered", busy, kopf.Label("any", filter.Match(func(any) bool { return calls == 1 })))
		if calls < 3 {
			req.Sub("wait", busy)
			if calls == 2 && req.AwaitSubs() {
				return errors.New("the sub-handlers have not finished")
			}
		}
		return nil
	}
	lines := &logLines{}
	report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{newConfigMap("one")}, Duration: 10 * time.Minute},
		lines.option(),
		kopf.For(&corev1.ConfigMap{}).OnCreate("parent", parent).OnCreate("other", busy))
	for _, id := range []string{"parent/lost", "parent/lost/deep", "parent/lost-too", "parent/wait"} {
		if record := report.Record(t, newConfigMap("one"), id); record == nil || !record.Failure || !strings.Contains(record.Message, "not declared again") {
			t.Errorf("record of %s: %+v, want a failure because it was not declared again", id, record)
		}
	}
	if record := report.Record(t, newConfigMap("one"), "parent/filtered"); record == nil || record.Finished() {
		t.Errorf("record of the sub-handler whose filter does not match any more: %+v, want it unchanged", record)
	}
	if record := report.Record(t, newConfigMap("one"), "parent"); record == nil || !record.Success {
		t.Errorf("record of the parent: %+v, want a success", record)
	}
	got := lines.with("not declared again")
	if len(got) != 1 || !strings.Contains(got[0], "parent/lost, parent/lost-too (the cloud is busy), parent/lost/deep (the cloud is busy), parent/wait (the cloud is busy)") || !strings.Contains(got[0], `"handler"="parent"`) {
		t.Errorf("log lines: %q, want one that names the parent and the four sub-handlers", got)
	}
	var events []string
	for _, event := range report.Events {
		events = append(events, event.String())
	}
	if len(events) != 1 || !strings.HasPrefix(events[0], "Warning SubHandlersDropped: ") || !strings.Contains(events[0], "parent/lost-too") {
		t.Errorf("Events = %q, want one SubHandlersDropped that names the sub-handlers", events)
	}
}

// A handler that returns before it has declared all its sub-handlers, because it awaits some of them, drops none.
func TestSubHandlers_NotDeclaredYet(t *testing.T) {
	lines := &logLines{}
	open := true
	parent := func(_ context.Context, req *mapRequest) error {
		req.Sub("a", func(context.Context, *mapRequest) error { return nil })
		if req.Attempt.Started.Add(90 * time.Second).Before(time.Now()) {
			req.Sub("late", func(context.Context, *mapRequest) error { open = false; return nil })
		}
		if !req.AwaitSubs() {
			return nil
		}
		req.Sub("b", func(ctx context.Context, req *mapRequest) error {
			if open {
				return busy(ctx, req)
			}
			return nil
		})
		return nil
	}
	report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{newConfigMap("one")}, Duration: 10 * time.Minute},
		lines.option(), kopf.For(&corev1.ConfigMap{}).OnCreate("parent", parent))
	if got := lines.with("declared again"); len(got) != 0 || open || len(report.Events) != 1 || report.Events[0].Reason != "HandlerRecovered" {
		t.Errorf("log lines: %q, Events: %q, open: %t", got, report.Events, open)
	}
	if n := countCalls(report.Calls, "parent/b"); n != 3 {
		t.Errorf("the second group was called %d times, want 3", n)
	}
}

func TestSubHandlers_Lifecycles(t *testing.T) { // LIFE-08
	parent := func(_ context.Context, req *mapRequest) error {
		req.Sub("a", succeed)
		if req.Sub("b", succeed); !req.AwaitSubs() {
			return nil
		}
		req.Sub("c", succeed)
		return nil
	}
	subsNever := func(due []string, record func(string) progress.Record) []string {
		return slices.DeleteFunc(due, func(id string) bool { return strings.Contains(id, "/") })
	}
	for name, test := range map[string]struct {
		lifecycle progress.Lifecycle
		want      []string
	}{
		"one by one": {progress.OneByOne, []string{"parent", "parent/a", "parent", "parent/b", "parent", "parent/c", "next"}},
		"asap":       {progress.Asap, []string{"parent", "parent/a", "parent", "parent/b", "parent", "parent/c", "next"}},
		"all":        {progress.AllAtOnce, []string{"parent", "parent/a", "parent/b", "parent", "parent/c", "next"}},
	} {
		t.Run(name, func(t *testing.T) {
			report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{newConfigMap("one")}, Duration: time.Minute},
				kopf.WithLifecycle(test.lifecycle), kopf.For(&corev1.ConfigMap{}).OnCreate("parent", parent).OnCreate("next", succeed, kopf.After("parent")))
			if got := report.Handlers(); !slices.Equal(got, test.want) {
				t.Errorf("calls = %q, want %q", got, test.want)
			}
		})
	}
	t.Run("a lifecycle that refuses sub-handlers", func(t *testing.T) {
		report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{newConfigMap("one")}, Duration: 10 * time.Second},
			kopf.WithLifecycle(subsNever), kopf.For(&corev1.ConfigMap{}).OnCreate("parent", parent))
		if n := len(report.Calls); n > 12 {
			t.Errorf("%d calls in 10 seconds, want one each second", n)
		}
	})
}

// A sub-handler has limits of its own.
func TestSubHandlers_OwnLimits(t *testing.T) {
	parent := func(_ context.Context, req *mapRequest) error {
		req.Sub("retries", busy, kopf.Retries(3))
		req.Sub("timeout", busy, kopf.Timeout(5*time.Minute))
		req.Sub("none", busy, kopf.Retries(0))
		return nil
	}
	report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{newConfigMap("one")}, Duration: time.Hour},
		kopf.For(&corev1.ConfigMap{}).OnCreate("parent", parent))
	for id, want := range map[string]int{"parent/retries": 3, "parent/timeout": 5, "parent/none": 0} {
		if n := countCalls(report.Calls, id); n != want {
			t.Errorf("%s was called %d times, want %d", id, n, want)
		}
	}
}

// CancelOnDelete of a handler also holds for its sub-handlers.
func TestSubHandlers_CancelOnDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
		sleep := func(ctx context.Context, _ *mapRequest) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Hour):
				return nil
			}
		}
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).
			OnCreate("parent", declares("a", declares("sleep", sleep)), kopf.CancelOnDelete()).
			OnDelete("delete", succeed))
		<-time.After(time.Minute)
		cluster.Delete(t, newConfigMap("one"))
		<-time.After(time.Minute)
		want := []string{"parent", "parent/a", "parent/a/sleep", "delete"}
		if got := operator.Handlers(newConfigMap("one")); !slices.Equal(got, want) {
			t.Errorf("calls = %q a minute after the deletion, want %q", got, want)
		}
	})
}

// The deletion does not wait for optional delete handlers, so they are called once, with their sub-handlers.
func TestSubHandlers_OfOptionalDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
		parent := func(_ context.Context, req *mapRequest) error {
			req.Sub("a", declares("b", busy))
			req.Sub("filtered", succeed, kopf.Label("missing"))
			if !req.AwaitSubs() {
				return nil
			}
			req.Sub("c", succeed)
			return nil
		}
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnDelete("parent", parent, kopf.Optional()))
		operator.RunUntilQuiet(t)
		cluster.Delete(t, newConfigMap("one"))
		operator.RunUntilQuiet(t)
		want := []string{"parent", "parent/a", "parent/a/b", "parent", "parent/c"}
		if got := operator.Handlers(newConfigMap("one")); !slices.Equal(got, want) {
			t.Errorf("calls = %q, want %q", got, want)
		}
	})
}

// Only cause handlers have progress that sub-handlers could be part of.
func TestSubHandlers_OnlyInCauseHandlers(t *testing.T) { // HND-22
	for name, declare := range map[string]func(*kopf.Resource[configMap], kopf.Handler[configMap]){
		"event":     func(r *kopf.Resource[configMap], fn kopf.Handler[configMap]) { r.OnEvent("fn", fn) },
		"reconcile": func(r *kopf.Resource[configMap], fn kopf.Handler[configMap]) { r.OnReconcile("fn", fn) },
		"daemon":    func(r *kopf.Resource[configMap], fn kopf.Handler[configMap]) { r.Daemon("fn", daemons.Daemon{}, fn) },
		"timer": func(r *kopf.Resource[configMap], fn kopf.Handler[configMap]) {
			r.Timer("fn", daemons.Timer{Interval: time.Hour}, fn)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := kopf.For(&corev1.ConfigMap{})
			declare(r, declares("a", succeed))
			report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{newConfigMap("one")}}, r)
			if len(report.Calls) != 1 || report.Calls[0].Err == nil || !strings.Contains(report.Calls[0].Err.Error(), "cannot have sub-handlers") {
				t.Errorf("calls = %+v, want one that fails because it cannot have sub-handlers", report.Calls)
			}
		})
	}
}

func TestExplain_SubHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := explainAfter(t, 30*time.Second, kopf.For(&corev1.ConfigMap{}).
			OnCreate("parent", declares("a", declares("busy", busy))).
			OnCreate("short", declares("a", declares("busy", busy)), kopf.Timeout(30*time.Second)))
		var got []string
		for _, h := range x.Handlers {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s: %s %s", h.Kind, h.ID, h.State, h.Why, h.LastError)))
		}
		want := []string{
			"cause parent waiting: it waits for its sub-handlers",
			"sub parent/a waiting: it waits for its sub-handlers",
			"sub parent/a/busy waiting:  the cloud is busy",
			"cause short failed:  gave up because the next attempt would exceed the timeout of 30s: unfinished sub-handlers: short/a, short/a/busy (the cloud is busy)",
			`sub short/a failed:  not called again, because "short" has failed`,
			`sub short/a/busy failed:  not called again, because "short" has failed; the last error: the cloud is busy`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// Each process calls the sub-handlers of a resume handler, also if an earlier process has called some of them and their parent has not finished.
func TestSubHandlers_OfResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
		parent := func(_ context.Context, req *mapRequest) error {
			req.Sub("connect", declares("deep", succeed))
			req.Sub("busy", busy)
			return nil
		}
		want := []string{"parent", "parent/connect", "parent/connect/deep", "parent/busy", "parent", "parent/busy"}
		for _, want := range [][]string{nil, want, want, want} {
			operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnResume("parent", parent).OnUpdate("other", succeed))
			<-time.After(61 * time.Second)
			if got := operator.Handlers(newConfigMap("one")); !slices.Equal(got, want) {
				t.Errorf("calls = %q, want %q", got, want)
			}
			<-time.After(59 * time.Second)
			operator.Stop(t)
		}
	})
}
