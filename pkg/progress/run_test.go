package progress_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A journal records the called steps and creates steps that return given errors.
type journal struct{ calls []string }

func (j *journal) step(id string, do func(progress.Attempt) error) progress.Step {
	return progress.Step{ID: id, Do: func(_ context.Context, attempt progress.Attempt) error {
		j.calls = append(j.calls, id)
		if do == nil {
			return nil
		}
		return do(attempt)
	}}
}

func (j *journal) called() []string {
	calls := j.calls
	j.calls = nil
	return calls
}

func mustRun(t *testing.T, obj client.Object, cause string, steps ...progress.Step) progress.Report {
	t.Helper()
	report, err := progress.Run(t.Context(), store, obj, cause, steps...)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return report
}

// restarted returns the object as another process would read it.
func restarted(obj *corev1.ConfigMap) *corev1.ConfigMap { return obj.DeepCopy() }

func TestRun_CallsEachStepOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, obj := &journal{}, configMap()
		steps := []progress.Step{j.step("b", nil), j.step("a", nil)}
		equal(t, "report", mustRun(t, obj, "v1", steps...), progress.Report{Done: true})
		equal(t, "HND-10 called, in order", j.called(), []string{"b", "a"})

		pass(time.Hour)
		obj = restarted(obj)
		equal(t, "report", mustRun(t, obj, "v1", steps...), progress.Report{Done: true})
		equal(t, "PROG-29 called after a restart", len(j.called()), 0)

		equal(t, "report", mustRun(t, obj, "v2", steps...), progress.Report{Done: true})
		equal(t, "B-02 SE-03 called for another cause", j.called(), []string{"b", "a"})
		mustRun(t, obj, "v1", steps...)
		equal(t, "B-02 called for the first cause again", j.called(), []string{"b", "a"})
	})
}

func TestRun_NoSteps(t *testing.T) {
	obj := configMap()
	equal(t, "PROG-19 report", mustRun(t, obj, "v1"), progress.Report{Done: true})
	equal(t, "PROG-21 the object", obj, configMap())
}

func TestRun_StoresRecordsOnObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		j, obj := &journal{}, configMap("example.com/mine", "x")
		mustRun(t, obj, "v1", j.step("ok", nil), j.step("no", func(progress.Attempt) error { return errBoom }))
		equal(t, "PROG-13 one record", *mustFetch(t, store, obj, "ok"),
			progress.Record{Started: now, Stopped: now, Purpose: "v1", Retries: 1, Success: true})
		equal(t, "PROG-13 PROG-17 PROG-18 the other record", *mustFetch(t, store, obj, "no"),
			progress.Record{Started: now, Delayed: now.Add(time.Minute), Attempted: now, Purpose: "v1", Retries: 1, Message: "boom"})
		equal(t, "what is not ours", obj.Annotations["example.com/mine"], "x")
	})
}

func TestRun_Retries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		j, obj := &journal{}, configMap()
		var attempts []progress.Attempt
		steps := []progress.Step{
			j.step("slow", func(a progress.Attempt) error {
				attempts = append(attempts, a)
				if a.Number < 2 {
					return progress.Temporary(errBoom, 10*time.Second)
				}
				return nil
			}),
			j.step("quick", nil),
		}
		equal(t, "report", mustRun(t, obj, "v1", steps...), progress.Report{RequeueAfter: 10 * time.Second})
		equal(t, "LIFE-09 ERR-10 called", j.called(), []string{"slow", "quick"})

		pass(4 * time.Second) // a user edits the object
		equal(t, "report", mustRun(t, obj, "v1", steps...), progress.Report{RequeueAfter: 6 * time.Second})
		equal(t, "B-11 called before its time", len(j.called()), 0)

		pass(6 * time.Second)
		obj = restarted(obj)
		equal(t, "report", mustRun(t, obj, "v1", steps...), progress.Report{RequeueAfter: 10 * time.Second})
		equal(t, "PROG-29 called in its time", j.called(), []string{"slow"})

		pass(10 * time.Second)
		equal(t, "report", mustRun(t, obj, "v1", steps...), progress.Report{Done: true})
		equal(t, "called", j.called(), []string{"slow"})
		equal(t, "PROG-16 PROG-29 attempts", attempts, []progress.Attempt{
			{Number: 0, Started: began}, {Number: 1, Started: began, Last: "boom"}, {Number: 2, Started: began, Last: "boom"},
		})
	})
}

func TestRun_RequeuesImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, obj := &journal{}, configMap()
		step := j.step("a", func(progress.Attempt) error { return progress.Temporary(errBoom, 0) })
		report := mustRun(t, obj, "v1", step)
		if report.Done || report.RequeueAfter <= 0 || report.RequeueAfter > 10*time.Millisecond {
			t.Errorf("B-03 PROG-31: report = %+v, want a wait that is short and more than nothing", report)
		}
		mustRun(t, obj, "v1", step)
		equal(t, "PROG-17 called", j.called(), []string{"a", "a"})
	})
}

func TestRun_RequeuesForNearestStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, obj := &journal{}, configMap()
		wait := func(delay time.Duration) func(progress.Attempt) error {
			return func(progress.Attempt) error { return progress.Temporary(errBoom, delay) }
		}
		report := mustRun(t, obj, "v1", j.step("a", wait(time.Hour)), j.step("b", wait(time.Minute)), j.step("c", nil))
		equal(t, "DLY-01 report", report, progress.Report{RequeueAfter: time.Minute})
	})
}

// The duration of the steps must not be added to the delay.
func TestRun_ComputesDelayAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, obj := &journal{}, configMap()
		began := time.Now()
		report := mustRun(t, obj, "v1",
			j.step("a", func(progress.Attempt) error { return progress.Temporary(errBoom, time.Minute) }),
			j.step("b", func(progress.Attempt) error { pass(20 * time.Second); return nil }),
		)
		equal(t, "PROG-31 report", report, progress.Report{RequeueAfter: 40 * time.Second})
		equal(t, "PROG-17 delayed from the end of its attempt", mustFetch(t, store, obj, "a").Delayed, began.Add(time.Minute).UTC())
		equal(t, "stopped at the end of its attempt", mustFetch(t, store, obj, "b").Stopped, began.Add(20*time.Second).UTC())
	})
}

func TestRun_NewCauseKeepsDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, obj := &journal{}, configMap()
		step := j.step("a", func(progress.Attempt) error { return errBoom })
		step.Policy.Backoff = new(time.Hour)
		for _, cause := range []string{"v1", "v2", "v3", "v4"} {
			mustRun(t, obj, cause, step)
			pass(time.Minute)
		}
		equal(t, "B-11 PROG-22 called", j.called(), []string{"a"})
		pass(56 * time.Minute)
		mustRun(t, obj, "v5", step)
		equal(t, "B-11 called in its time", j.called(), []string{"a"})
		equal(t, "PROG-22 PROG-24 attempts", mustFetch(t, store, obj, "a").Retries, 2)
	})
}

func TestRun_ReportsFailedSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, obj := &journal{}, configMap()
		limited := j.step("limited", func(progress.Attempt) error { return errBoom })
		limited.Policy = progress.Policy{Retries: new(1)}
		steps := []progress.Step{
			j.step("permanent", func(progress.Attempt) error { return progress.Permanent(errBoom) }),
			limited,
			j.step("fine", nil),
		}
		report := mustRun(t, obj, "v1", steps...)
		equal(t, "LIFE-09 called", j.called(), []string{"permanent", "limited", "fine"})
		equal(t, "PROG-27 done", report.Done, true)
		equal(t, "a wait", report.RequeueAfter, time.Duration(0))
		equal(t, "failed", len(report.Failed), 2)
		equal(t, "PROG-18 the message", report.Failed["permanent"], "boom")
		if message := report.Failed["limited"]; !strings.Contains(message, "1 attempt") || !strings.Contains(message, "boom") {
			t.Errorf("ERR-05: the message is %q, want the limit and the last error", message)
		}
		equal(t, "PROG-29 the same after a restart", mustRun(t, restarted(obj), "v1", steps...), report)
		equal(t, "called after a restart", len(j.called()), 0)
	})
}

func TestRun_RecoversPanics(t *testing.T) {
	j, obj := &journal{}, configMap()
	report := mustRun(t, obj, "v1", j.step("a", func(progress.Attempt) error { panic("oh no") }), j.step("b", nil))
	equal(t, "B-23 the others are called", j.called(), []string{"a", "b"})
	equal(t, "B-23 done", report.Done, false)
	equal(t, "B-23 the message", mustFetch(t, store, obj, "a").Message, "panic: oh no")
}

func TestRun_AttemptTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		obj := configMap()
		began := time.Now()
		hang := progress.Step{ID: "hang", Policy: progress.Policy{AttemptTimeout: time.Second}, Do: func(ctx context.Context, _ progress.Attempt) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}}
		report := mustRun(t, obj, "v1", hang)
		equal(t, "B-22 it took", time.Since(began), time.Second)
		equal(t, "B-22 report", report, progress.Report{RequeueAfter: time.Minute})
		equal(t, "B-22 attempts", mustFetch(t, store, obj, "hang").Retries, 1)
	})
}

func TestRun_CancelledContext(t *testing.T) {
	j, obj := &journal{}, configMap()
	ctx, cancel := context.WithCancel(t.Context())
	report, err := progress.Run(ctx, store, obj, "v1",
		j.step("done", nil),
		j.step("cut", func(progress.Attempt) error { cancel(); return ctx.Err() }),
		j.step("later", nil),
	)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "called", j.called(), []string{"done", "cut"})
	equal(t, "B-14 what was done is remembered", mustFetch(t, store, obj, "done").Success, true)
	equal(t, "PROG-29 what was cut off does not count", mustFetch(t, store, obj, "cut").Retries, 0)
	equal(t, "PROG-13 what was not attempted is remembered", mustFetch(t, store, obj, "later").Purpose, "v1")
	if report.Done || report.RequeueAfter <= 0 {
		t.Errorf("B-03: report = %+v, want to come back", report)
	}
}

func TestRun_UnreadableRecords(t *testing.T) {
	j, obj := &journal{}, configMap(kopfPrefix+"/a", "{", kopfPrefix+"/b", `{"delayed":"?"}`)
	equal(t, "B-30 report", mustRun(t, obj, "v1", j.step("a", nil), j.step("b", nil)), progress.Report{Done: true})
	equal(t, "B-30 called", j.called(), []string{"a", "b"})
	equal(t, "B-30 written anew", mustFetch(t, store, obj, "a").Success, true)
}

// Records of kopf under the same ids are continued.
func TestRun_ContinuesRecordsOfKopf(t *testing.T) {
	j, obj := &journal{}, configMap(
		kopfPrefix+"/ok", `{"started":"2020-12-31T23:59:59.123456+00:00","purpose":"create","retries":1,"success":true,"failure":false}`,
		kopfPrefix+"/old", `{"started":"2020-12-31T23:59:59.123456+00:00","retries":2}`,
	)
	numbers := []int{}
	mustRun(t, obj, "create", j.step("ok", nil), j.step("old", func(a progress.Attempt) error {
		numbers = append(numbers, a.Number)
		return nil
	}))
	equal(t, "PROG-29 PROG-30 called", j.called(), []string{"old"})
	equal(t, "PROG-25 PROG-30 the attempt", numbers, []int{2})
}

func TestRun_InvalidSteps(t *testing.T) {
	nothing := func(context.Context, progress.Attempt) error { return nil }
	for _, test := range []struct {
		name  string
		cause string
		steps []progress.Step
		want  []string // parts of the error
	}{
		{"B-21 the cause is empty", "", []progress.Step{{ID: "a", Do: nothing}}, []string{"cause"}},
		{"B-21 an id is empty", "v1", []progress.Step{{Do: nothing}}, []string{"id is empty"}},
		{"B-21 an id is twice", "v1", []progress.Step{{ID: "a", Do: nothing}, {ID: "b", Do: nothing}, {ID: "a", Do: nothing}}, []string{`"a"`, "rename"}},
		{"B-21 KEY-04 two ids are one key", "v1", []progress.Step{{ID: "a/b", Do: nothing}, {ID: "a.b", Do: nothing}}, []string{`"a/b"`, `"a.b"`, "rename"}},
		{"B-21 an id has no key", "v1", []progress.Step{{ID: "a:b", Do: nothing}}, []string{`"a:b"`}},
		{"B-21 an id is the framework's", "v1", []progress.Step{{ID: "touch-dummy", Do: nothing}}, []string{`"touch-dummy"`}},
		{"nothing to do", "v1", []progress.Step{{ID: "a"}}, []string{`"a"`, "Do"}},
		{"all errors together", "", []progress.Step{{ID: "a"}, {ID: "a:b", Do: nothing}, {ID: "a", Do: nothing}}, []string{"cause", `"a:b"`, "Do", "rename"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := configMap()
			steps := append([]progress.Step{{ID: "first", Do: func(context.Context, progress.Attempt) error {
				t.Error("a step was called in spite of the mistake")
				return nil
			}}}, test.steps...)
			report, err := progress.Run(t.Context(), store, obj, test.cause, steps...)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error lacks %q: %v", part, err)
				}
			}
			equal(t, "report", report, progress.Report{})
			equal(t, "the object", obj, configMap())
		})
	}
}

// A plain store has no KeyChecker.
type plain struct{ keeper }

func TestRun_StoreWithoutKeyChecker(t *testing.T) {
	j, obj := &journal{}, configMap()
	if _, err := progress.Run(t.Context(), plain{store}, obj, "v1", j.step("a", nil), j.step("a", nil)); err == nil {
		t.Error("B-21: two steps of one id were accepted")
	}
	report, err := progress.Run(t.Context(), plain{store}, obj, "v1", j.step("a:b", nil))
	if err != nil || !report.Done {
		t.Errorf("Run = %+v, %v, want all done: what ids the store can keep is its own matter", report, err)
	}
}

func TestRun_ReturnsStoreErrors(t *testing.T) {
	errFull := errors.New("full")
	j, obj := &journal{}, configMap()
	report, err := progress.Run(t.Context(), failingStore{store, map[string]error{"a": errFull}}, obj, "v1", j.step("a", nil), j.step("b", nil))
	if !errors.Is(err, errFull) {
		t.Errorf("Run = %v, want the error of the store", err)
	}
	equal(t, "report", report, progress.Report{Done: true})
	equal(t, "ERR-10 the records of the others", mustFetch(t, store, obj, "b").Success, true)
}
