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

// journal records the called steps and creates steps that return the given errors.
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

// copyOf returns a copy of the object, as another process would read it.
func copyOf(obj *corev1.ConfigMap) *corev1.ConfigMap { return obj.DeepCopy() }

func TestRun_CallsEachStepOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, obj := &journal{}, configMap()
		steps := []progress.Step{j.step("b", nil), j.step("a", nil)}
		equal(t, "report", mustRun(t, obj, "v1", steps...), progress.Report{Done: true})
		equal(t, "HND-10 called steps", j.called(), []string{"b", "a"})

		advance(time.Hour)
		obj = copyOf(obj)
		equal(t, "report", mustRun(t, obj, "v1", steps...), progress.Report{Done: true})
		equal(t, "PROG-29 number of calls after a restart", len(j.called()), 0)

		equal(t, "report", mustRun(t, obj, "v2", steps...), progress.Report{Done: true})
		equal(t, "B-02 SE-03 called steps for another cause", j.called(), []string{"b", "a"})
		mustRun(t, obj, "v1", steps...)
		equal(t, "B-02 called steps for the first cause", j.called(), []string{"b", "a"})
	})
}

func TestRun_NoSteps(t *testing.T) {
	obj := configMap()
	equal(t, "PROG-19 report", mustRun(t, obj, "v1"), progress.Report{Done: true})
	equal(t, "PROG-21 object", obj, configMap())
}

func TestRun_StoresRecordsOnObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		j, obj := &journal{}, configMap("example.com/mine", "x")
		mustRun(t, obj, "v1", j.step("ok", nil), j.step("no", func(progress.Attempt) error { return errBoom }))
		equal(t, "PROG-13 one record", *mustFetch(t, store, obj, "ok"),
			progress.Record{Started: now, Stopped: now, Purpose: "v1", Retries: 1, Success: true})
		equal(t, "PROG-13 PROG-17 PROG-18 other record", *mustFetch(t, store, obj, "no"),
			progress.Record{Started: now, Delayed: now.Add(time.Minute), Attempted: now, Purpose: "v1", Retries: 1, Message: "boom"})
		equal(t, "annotation of another client", obj.Annotations["example.com/mine"], "x")
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
		equal(t, "LIFE-09 ERR-10 called steps", j.called(), []string{"slow", "quick"})

		advance(4 * time.Second) // a user edits the object
		equal(t, "report", mustRun(t, obj, "v1", steps...), progress.Report{RequeueAfter: 6 * time.Second})
		equal(t, "B-11 number of calls before the delay ends", len(j.called()), 0)

		advance(6 * time.Second)
		obj = copyOf(obj)
		equal(t, "report", mustRun(t, obj, "v1", steps...), progress.Report{RequeueAfter: 10 * time.Second})
		equal(t, "PROG-29 called steps after the delay", j.called(), []string{"slow"})

		advance(10 * time.Second)
		equal(t, "report", mustRun(t, obj, "v1", steps...), progress.Report{Done: true})
		equal(t, "called steps", j.called(), []string{"slow"})
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
			t.Errorf("B-03 PROG-31: report = %+v, want a short positive delay", report)
		}
		mustRun(t, obj, "v1", step)
		equal(t, "PROG-17 called steps", j.called(), []string{"a", "a"})
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

// The delay does not include the duration of the steps.
func TestRun_ComputesDelayAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, obj := &journal{}, configMap()
		began := time.Now()
		report := mustRun(t, obj, "v1",
			j.step("a", func(progress.Attempt) error { return progress.Temporary(errBoom, time.Minute) }),
			j.step("b", func(progress.Attempt) error { advance(20 * time.Second); return nil }),
		)
		equal(t, "PROG-31 report", report, progress.Report{RequeueAfter: 40 * time.Second})
		equal(t, "PROG-17 end of the delay", mustFetch(t, store, obj, "a").Delayed, began.Add(time.Minute).UTC())
		equal(t, "end of the attempt", mustFetch(t, store, obj, "b").Stopped, began.Add(20*time.Second).UTC())
	})
}

func TestRun_NewCauseKeepsDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, obj := &journal{}, configMap()
		step := j.step("a", func(progress.Attempt) error { return errBoom })
		step.Policy.Backoff = new(time.Hour)
		for _, cause := range []string{"v1", "v2", "v3", "v4"} {
			mustRun(t, obj, cause, step)
			advance(time.Minute)
		}
		equal(t, "B-11 PROG-22 called steps", j.called(), []string{"a"})
		advance(56 * time.Minute)
		mustRun(t, obj, "v5", step)
		equal(t, "B-11 called steps after the delay", j.called(), []string{"a"})
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
		equal(t, "LIFE-09 called steps", j.called(), []string{"permanent", "limited", "fine"})
		equal(t, "PROG-27 done", report.Done, true)
		equal(t, "requeue delay", report.RequeueAfter, time.Duration(0))
		equal(t, "failed", len(report.Failed), 2)
		equal(t, "PROG-18 message", report.Failed["permanent"], "boom")
		if message := report.Failed["limited"]; !strings.Contains(message, "1 attempt") || !strings.Contains(message, "boom") {
			t.Errorf("ERR-05: message = %q, want the limit and the last error", message)
		}
		equal(t, "PROG-29 report after a restart", mustRun(t, copyOf(obj), "v1", steps...), report)
		equal(t, "number of calls after a restart", len(j.called()), 0)
	})
}

func TestRun_RecoversPanics(t *testing.T) {
	j, obj := &journal{}, configMap()
	report := mustRun(t, obj, "v1", j.step("a", func(progress.Attempt) error { panic("boom") }), j.step("b", nil))
	equal(t, "B-23 called steps", j.called(), []string{"a", "b"})
	equal(t, "B-23 done", report.Done, false)
	equal(t, "B-23 message", mustFetch(t, store, obj, "a").Message, "panic: boom")
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
		equal(t, "B-22 duration of the run", time.Since(began), time.Second)
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
	equal(t, "called steps", j.called(), []string{"done", "cut"})
	equal(t, "B-14 success of the finished step", mustFetch(t, store, obj, "done").Success, true)
	equal(t, "PROG-29 retries of the interrupted step", mustFetch(t, store, obj, "cut").Retries, 0)
	equal(t, "PROG-13 purpose of the step without an attempt", mustFetch(t, store, obj, "later").Purpose, "v1")
	if report.Done || report.RequeueAfter <= 0 {
		t.Errorf("B-03: report = %+v, want a requeue", report)
	}
}

func TestRun_UnreadableRecords(t *testing.T) {
	j, obj := &journal{}, configMap(kopfPrefix+"/a", "{", kopfPrefix+"/b", `{"delayed":"?"}`)
	equal(t, "B-30 report", mustRun(t, obj, "v1", j.step("a", nil), j.step("b", nil)), progress.Report{Done: true})
	equal(t, "B-30 called steps", j.called(), []string{"a", "b"})
	equal(t, "B-30 success in the new record", mustFetch(t, store, obj, "a").Success, true)
}

// Run continues kopf's records with the same ids.
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
	equal(t, "PROG-29 PROG-30 called steps", j.called(), []string{"old"})
	equal(t, "PROG-25 PROG-30 attempt numbers", numbers, []int{2})
}

func TestRun_InvalidSteps(t *testing.T) {
	nothing := func(context.Context, progress.Attempt) error { return nil }
	for _, test := range []struct {
		name  string
		cause string
		steps []progress.Step
		want  []string // parts of the error
	}{
		{"B-21 an empty cause", "", []progress.Step{{ID: "a", Do: nothing}}, []string{"cause"}},
		{"B-21 an empty id", "v1", []progress.Step{{Do: nothing}}, []string{"id is empty"}},
		{"B-21 a duplicate id", "v1", []progress.Step{{ID: "a", Do: nothing}, {ID: "b", Do: nothing}, {ID: "a", Do: nothing}}, []string{`"a"`, "rename"}},
		{"B-21 KEY-04 two ids with the same key", "v1", []progress.Step{{ID: "a/b", Do: nothing}, {ID: "a.b", Do: nothing}}, []string{`"a/b"`, `"a.b"`, "rename"}},
		{"B-21 an id without a valid key", "v1", []progress.Step{{ID: "a:b", Do: nothing}}, []string{`"a:b"`}},
		{"B-21 a reserved id", "v1", []progress.Step{{ID: "touch-dummy", Do: nothing}}, []string{`"touch-dummy"`}},
		{"a step without a function", "v1", []progress.Step{{ID: "a"}}, []string{`"a"`, "Do"}},
		{"all errors together", "", []progress.Step{{ID: "a"}, {ID: "a:b", Do: nothing}, {ID: "a", Do: nothing}}, []string{"cause", `"a:b"`, "Do", "rename"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := configMap()
			steps := append([]progress.Step{{ID: "first", Do: func(context.Context, progress.Attempt) error {
				t.Error("a step was called despite the error")
				return nil
			}}}, test.steps...)
			report, err := progress.Run(t.Context(), store, obj, test.cause, steps...)
			if err == nil {
				t.Fatal("got no error")
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("want %q in the error, got %v", part, err)
				}
			}
			equal(t, "report", report, progress.Report{})
			equal(t, "object", obj, configMap())
		})
	}
}

// plain is a store without KeyChecker.
type plain struct{ embeddedStore }

func TestRun_StoreWithoutKeyChecker(t *testing.T) {
	j, obj := &journal{}, configMap()
	if _, err := progress.Run(t.Context(), plain{store}, obj, "v1", j.step("a", nil), j.step("a", nil)); err == nil {
		t.Error("B-21: got no error for a duplicate id")
	}
	report, err := progress.Run(t.Context(), plain{store}, obj, "v1", j.step("a:b", nil))
	if err != nil || !report.Done {
		t.Errorf("Run = %+v, %v, want a finished report and no error", report, err)
	}
}

func TestRun_ReturnsStoreErrors(t *testing.T) {
	errFull := errors.New("full")
	j, obj := &journal{}, configMap()
	report, err := progress.Run(t.Context(), failingStore{store, map[string]error{"a": errFull}}, obj, "v1", j.step("a", nil), j.step("b", nil))
	if !errors.Is(err, errFull) {
		t.Errorf("error of Run = %v, want the error of the store", err)
	}
	equal(t, "report", report, progress.Report{Done: true})
	equal(t, "ERR-10 success of the other step", mustFetch(t, store, obj, "b").Success, true)
}
