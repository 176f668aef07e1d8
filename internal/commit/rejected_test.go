package commit_test

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// rejectsValue returns a function that rejects requests in which a field has a value.
func rejectsValue(value any, path ...string) func(request) error {
	return func(r request) error {
		if found, _, _ := unstructured.NestedFieldNoCopy(r.doc, path...); found == value {
			return errInvalid
		}
		return nil
	}
}

// withThird returns the default builder with a third handler.
func withThird() *commit.Builder {
	b := defaults()
	b.HandlerIDs = []string{"a", "b", "c"}
	return b
}

const threeRecords = "+a +b +c +last-handled-configuration +pinned-configuration"

// If the API server rejects a request, the patch of each handler is written alone. Only the handler whose patch is rejected has failed.
func TestWrite_IsolatesRejectedPatch(t *testing.T) {
	o := newOperator(t, withThird(), handled(1, sized(2)))
	o.before = rejectsValue("bad", "spec", "b")
	s := o.begin()
	o.call(s, "a", succeeds, patch.MergePatch{"spec": m{"a": "x"}, "status": m{"a": "x"}})
	rejected := o.call(s, "b", succeeds, patch.MergePatch{"spec": m{"b": "bad"}, "status": m{"b": "x"}})
	o.call(s, "c", succeeds, patch.MergePatch{"spec": m{"c": "x"}})
	o.write(s)
	equal(t, "B-05 requests", o.sent(), []string{
		"/status status.a status.b", "spec.a spec.b spec.c " + threeRecords, // rejected after its status was written
		"/status status.a", "spec.a",
		"/status status.b", "spec.b", // rejected
		"spec.c",
		"/status status.b", threeRecords, // the revert
	})
	equal(t, "spec", o.field("spec"), any(m{"size": int64(2), "a": "x", "c": "x"}))
	equal(t, "status", o.field("status"), any(m{"a": "x"}))
	equal(t, "handled state", s.Cause.New, m{"spec": m{"size": int64(2), "a": "x", "c": "x"}})
	equal(t, "old state", s.Cause.Old, m{"spec": m{"size": int64(1), "a": "x", "c": "x"}})

	failed := rejected.Outcome
	if failed.Success || failed.Final || !failed.Attempted || failed.Delay != backoff || !errors.Is(failed.Err, errInvalid) {
		t.Errorf("the outcome of the rejected attempt is %+v", failed)
	}
	record := recordOf(t, o.committer.Builder, o.object(), "b")
	if record.Success || record.Retries != 1 || record.Delayed.Sub(record.Attempted) != backoff || record.Message == "" {
		t.Errorf("ERR-01 the record of the rejected attempt is %+v", record)
	}
	if !o.aborted {
		t.Error("Aborted is false: other handlers of the reconcile would be called")
	}
	next := o.begin()
	equal(t, "next reason", next.Cause.Reason, cause.Update)
	equal(t, "StalePin", next.Cause.StalePin, false)
	equal(t, "B-11 due after the delay", next.Records.Due(record.Delayed), []string{"b"})
}

// A handler restores a value that it has flushed. Its patch equals the state that it has received, but not the state of the object.
func TestWrite_IsolatesRejectedPatch_AfterFlush(t *testing.T) {
	obj := handled(1, sized(2))
	obj.Object["status"] = m{"phase": "Ready"}
	o := newOperator(t, defaults(), obj)
	s := o.begin()
	received := s.Draft.Current().Content
	copied := copyOf(s, patch.MergePatch{"status": m{"phase": "Updating", "message": "working"}})
	if err := o.flush(s, "a", copied); err != nil {
		t.Fatal(err)
	}
	o.call(s, "a", succeeds, patch.MergePatch{"status": m{"phase": "Ready", "message": nil}}).Base = received
	o.call(s, "b", succeeds, patch.MergePatch{"status": m{"b": "bad"}})
	o.before = rejectsValue("bad", "status", "b")
	o.sent()
	o.write(s)
	equal(t, "B-05 requests", o.sent(), []string{
		"/status status.b status.message status.phase", // rejected
		"/status status.message status.phase",
		"/status status.b", // rejected
		"+a +b +pinned-configuration",
	})
	equal(t, "status", o.field("status"), any(m{"phase": "Ready"}))
}

// A revert is written once. Later writes of the reconcile leave the values of other clients alone.
func TestWrite_RevertsOnce(t *testing.T) {
	o := newOperator(t, withThird(), handled(1, sized(2)))
	o.before = rejectsValue("bad", "spec", "b")
	s := o.begin()
	o.call(s, "a", succeeds, patch.MergePatch{"spec": m{"a": "x"}})
	o.call(s, "b", succeeds, patch.MergePatch{"spec": m{"b": "bad"}, "status": m{"b": "x"}})
	o.write(s)
	o.edit(patch.MergePatch{"status": m{"b": "foreign"}})
	if err := s.Draft.SetBase(o.object()); err != nil {
		t.Fatal(err)
	}
	o.call(s, "c", succeeds, patch.MergePatch{"spec": m{"c": "x"}})
	o.write(s)
	equal(t, "B-05 status", o.field("status"), any(m{"b": "foreign"}))
}

// A handler that has succeeded with its sub-handlers waits again if the patch of a sub-handler is rejected.
func TestWrite_ParentWaitsForRejectedSubHandler(t *testing.T) {
	o := newOperator(t, defaults(), handled(1, sized(2)))
	o.before = rejectsValue("bad", "spec", "b")
	s := o.begin()
	if err := s.Records.Adopt(o.committer.Builder.Store, s.Draft.Base(), "a", []string{"a/sub"}, now); err != nil {
		t.Fatal(err)
	}
	o.call(s, "a/sub", succeeds, patch.MergePatch{"spec": m{"b": "bad"}})
	o.call(s, "a", succeeds, nil)
	o.write(s)
	if sub, parent := s.Records.Record("a/sub"), s.Records.Record("a"); sub.Success || parent.Success || parent.Retries != 0 {
		t.Errorf("SUB-10 got the records %+v of the sub-handler and %+v of its parent, want both unfinished, and no attempt of the parent", sub, parent)
	}
}

// The outcomes of handlers whose patches are rejected.
func TestWrite_RecordsOutcomeOfRejectedPatch(t *testing.T) {
	doomed := progress.Policy{Errors: progress.ErrorsPermanent}
	interrupted := progress.Outcome{Err: errLost, Delay: time.Hour, Attempted: true}
	for _, test := range []struct {
		name    string
		outcome progress.Outcome
		change  func(p *commit.HandlerPatch)
		check   func(t *testing.T, p *commit.HandlerPatch, record progress.Record, failed bool)
	}{
		{
			"ERR-01 a success becomes a failure by the policy", succeeds, func(*commit.HandlerPatch) {},
			func(t *testing.T, p *commit.HandlerPatch, record progress.Record, _ bool) {
				if record.Finished() || record.Retries != 1 || p.Outcome.Delay != backoff {
					t.Errorf("outcome %+v, record %+v", p.Outcome, record)
				}
			},
		},
		{
			"ERR-01 a policy without retries", succeeds, func(p *commit.HandlerPatch) { p.Policy = doomed },
			func(t *testing.T, p *commit.HandlerPatch, record progress.Record, _ bool) {
				if !record.Failure || !p.Outcome.Final || p.Outcome.Success {
					t.Errorf("outcome %+v, record %+v", p.Outcome, record)
				}
			},
		},
		{
			"ERR-01 a failed attempt keeps its outcome", interrupted, func(*commit.HandlerPatch) {},
			func(t *testing.T, p *commit.HandlerPatch, record progress.Record, failed bool) {
				if p.Outcome != interrupted || record.Delayed != now.Add(time.Hour) || record.Retries != 1 || failed {
					t.Errorf("outcome %+v, record %+v, Fail was called: %t", p.Outcome, record, failed)
				}
			},
		},
		{
			"B-28 a handler without a record on the object is notified", succeeds, func(*commit.HandlerPatch) {},
			func(t *testing.T, _ *commit.HandlerPatch, _ progress.Record, failed bool) {
				if !failed {
					t.Error("Fail was not called")
				}
			},
		},
		{
			"SUB-10 an open attempt receives the rejection", succeeds, func(p *commit.HandlerPatch) { p.Open = true },
			func(t *testing.T, p *commit.HandlerPatch, record progress.Record, _ bool) {
				if !commit.IsRejected(p.Rejection) || record.Finished() || record.Retries != 0 || p.Outcome != succeeds {
					t.Errorf("Rejection = %v, outcome %+v, record %+v", p.Rejection, p.Outcome, record)
				}
				if outcome := p.RejectedOutcome(now); outcome.Delay != backoff || outcome.Waiting || outcome.Success {
					t.Errorf("RejectedOutcome() = %+v", outcome)
				}
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOperator(t, defaults(), handled(1, sized(2)))
			o.before = rejectsValue("bad", "spec", "own")
			s := o.begin()
			p := o.call(s, "a", test.outcome, own("bad"))
			failed := false
			p.Fail = func() { failed = true }
			p.Repeat = func() { t.Error("Repeat was called") }
			test.change(p)
			o.write(s)
			equal(t, "own field", o.field("spec", "own"), nil)
			test.check(t, p, recordOf(t, o.committer.Builder, o.object(), "a"), failed)
		})
	}
}

// The only patch of a request without framework's part is not sent a second time.
func TestWrite_RejectsSinglePatch(t *testing.T) {
	for _, test := range []struct {
		name   string
		reject func(request) error
		change patch.MergePatch
		want   []string
	}{
		{"B-05 in its only request", containing("spec.own", errInvalid), own("bad"), []string{"spec.own"}},
		{
			"B-05 after its status was written", containing("spec.own", errInvalid), patch.Merge(own("bad"), phase("Up")),
			[]string{"/status status.phase", "spec.own", "/status status.phase"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOperator(t, defaults(), object(m{"spec": m{"size": int64(1)}, "status": m{"phase": "Old"}}, baselineKey, text(sized(1))+"\n"))
			o.before = test.reject
			s := o.begin()
			s.Unmatched = true // otherwise the request contains a baseline
			o.call(s, "a", succeeds, test.change)
			written := o.write(s)
			equal(t, "requests", o.sent(), test.want)
			equal(t, "phase", o.field("status", "phase"), any("Old"))
			equal(t, "returned object", written, o.object())
			equal(t, "handlers receive the object as it is", s.Draft.Current().Object, client.Object(o.object()))
		})
	}
}

// Values that another client has set since are not reverted, and a rejected revert is given up.
func TestWrite_RevertsPartlyWrittenStatus(t *testing.T) {
	const records = "+a +b +last-handled-configuration +pinned-configuration"
	rejectSpec := containing("spec.own", errInvalid)
	for _, test := range []struct {
		name   string
		before func(o *operator) func(request) error
		want   any // the status
		last   []string
	}{
		{"B-05 the former value", func(*operator) func(request) error { return rejectSpec }, m{"phase": "Old"}, []string{"/status status.added status.phase", records}},
		{
			"B-05 another client has replaced the value before the last request", func(o *operator) func(request) error {
				return func(r request) error {
					if r.String() == "spec.b" {
						o.edit(phase("Foreign"))
					}
					return rejectSpec(r)
				}
			},
			m{"phase": "Foreign"}, []string{"/status status.added", records},
		},
		{
			"B-05 the API server rejects the revert", func(*operator) func(request) error {
				return func(r request) error {
					if value, found, _ := unstructured.NestedFieldNoCopy(r.doc, "status", "phase"); found && value == "Old" {
						return errInvalid
					}
					return rejectSpec(r)
				}
			},
			m{"phase": "New", "added": "x"}, []string{"/status status.added status.phase", records},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOperator(t, defaults(), object(m{"spec": m{"size": int64(2)}, "status": m{"phase": "Old"}}, baselineKey, text(sized(1))+"\n"))
			o.before = test.before(o)
			s := o.begin()
			o.call(s, "a", succeeds, patch.MergePatch{"spec": m{"own": "bad"}, "status": m{"phase": "New", "added": "x"}})
			o.call(s, "b", succeeds, patch.MergePatch{"spec": m{"b": "x"}})
			o.write(s)
			equal(t, "status", o.field("status"), test.want)
			requests := o.sent()
			equal(t, "last requests", requests[len(requests)-2:], test.last)
			equal(t, "a is due again", recordOf(t, o.committer.Builder, o.object(), "a").Finished(), false)
		})
	}
}

// A list that another client has changed is not overwritten. The attempt is repeated, and does not count.
func TestWrite_RepeatsAttemptAfterListConflict(t *testing.T) {
	list := func(tags ...any) m { return m{"spec": m{"size": int64(2), "tags": tags}} }
	o := newOperator(t, defaults(), object(list("x"), baselineKey, text(sized(1))+"\n"))
	s := o.begin()
	accepted := o.call(s, "a", succeeds, own("x"))
	p := o.call(s, "b", succeeds, patch.MergePatch{"spec": m{"tags": []any{"x", "own"}}, "status": m{"phase": "Up"}})
	repeated := 0
	p.Repeat = func() { repeated++ }
	p.Fail = func() { t.Error("Fail was called") }
	o.edit(patch.MergePatch{"spec": m{"tags": []any{"x", "foreign"}}})
	o.write(s)
	equal(t, "PATCH-22 spec", o.field("spec"), any(m{"size": int64(2), "tags": []any{"x", "foreign"}, "own": "x"}))
	equal(t, "status", o.field("status"), any(m{}))
	equal(t, "outcome of the other handler", accepted.Outcome, succeeds)
	if !p.Outcome.Interrupted || p.Outcome.Success || repeated != 1 {
		t.Errorf("outcome %+v, calls of Repeat: %d", p.Outcome, repeated)
	}
	record := recordOf(t, o.committer.Builder, o.object(), "b")
	if record.Retries != 0 || record.Finished() {
		t.Errorf("the record is %+v", record)
	}
	equal(t, "due", o.begin().Records.Due(now), []string{"b"})

	t.Run("an open attempt waits", func(t *testing.T) {
		open := &commit.HandlerPatch{Rejection: &patch.ListConflictError{Path: "spec.tags"}}
		equal(t, "outcome", open.RejectedOutcome(now), progress.Outcome{Waiting: true})
	})
}

// The conditions about handlers depend on the outcomes. They are computed again after a rejection, and cannot fail a handler.
func TestWrite_RejectsReport(t *testing.T) {
	report := func(value string) func(s *commit.Session) {
		return func(s *commit.Session) {
			for _, p := range s.Draft.Patches() {
				if p.Report {
					return
				}
			}
			doc := patch.MergePatch{"status": m{"reported": value}}.Unapplied(s.Draft.Current().Content)
			s.Draft.Add(&commit.HandlerPatch{Report: true, Patch: doc, Base: s.Draft.Current().Content})
		}
	}
	t.Run("B-60 the patch of a handler is rejected", func(t *testing.T) {
		o := newOperator(t, defaults(), handled(1, sized(2)))
		reports := 0
		o.report = func(s *commit.Session) {
			if reports++; s.Records.Record("a").Success {
				report("success")(s)
			} else {
				report("failure")(s)
			}
		}
		o.before = rejectsValue("bad", "spec", "own")
		s := o.begin()
		o.call(s, "a", succeeds, own("bad"))
		o.write(s)
		equal(t, "reported", o.field("status", "reported"), any("failure"))
		equal(t, "ReportRejected", s.ReportRejected, false)
	})
	t.Run("B-60 the report is rejected", func(t *testing.T) {
		o := newOperator(t, defaults(), handled(1, sized(2)))
		o.report = func(s *commit.Session) {
			if !s.ReportRejected {
				report("x")(s)
			}
		}
		o.before = containing("status.reported", errInvalid)
		s := o.begin()
		o.call(s, "a", succeeds, own("x"))
		o.write(s)
		equal(t, "spec", o.field("spec", "own"), any("x"))
		equal(t, "status", o.field("status"), nil)
		equal(t, "ReportRejected", s.ReportRejected, true)
		equal(t, "record", recordOf(t, o.committer.Builder, o.object(), "a").Success, true)
	})
}

// Errors while patches are written one by one leave the session pending. It continues with the patches that are left.
func TestWrite_ContinuesIsolationAfterError(t *testing.T) {
	o := newOperator(t, withThird(), handled(1, sized(2)))
	fail := once(func(r request) error { // the request with the patch of c alone
		if r.String() == "spec.c" {
			return errUnavailable
		}
		return nil
	})
	o.before = func(r request) error {
		if err := rejectsValue("bad", "spec", "b")(r); err != nil {
			return err
		}
		return fail(r)
	}
	s := o.begin()
	o.call(s, "a", succeeds, patch.MergePatch{"spec": m{"a": "x"}})
	rejected := o.call(s, "b", succeeds, patch.MergePatch{"spec": m{"b": "bad"}})
	o.call(s, "c", succeeds, patch.MergePatch{"spec": m{"c": "x"}})
	if _, err := o.tryWrite(s); err == nil || o.pending != s {
		t.Fatalf("the error is %v, and the pending session %v", err, o.pending)
	}
	equal(t, "first requests", o.sent(), []string{"spec.a spec.b spec.c " + threeRecords, "spec.a", "spec.b", "spec.c"})
	o.write(s)
	equal(t, "B-14 second requests", o.sent(), []string{"spec.c", threeRecords})
	equal(t, "spec", o.field("spec"), any(m{"size": int64(2), "a": "x", "c": "x"}))
	equal(t, "attempts of b", recordOf(t, o.committer.Builder, o.object(), "b").Retries, 1)
	equal(t, "outcome of b", rejected.Outcome.Success, false)
}

// A concurrent change while the outcome of a request with one patch is unknown.
func TestWrite_DropsFieldsOfConcurrentChangeDuringIsolation(t *testing.T) {
	o := newOperator(t, defaults(), handled(1, sized(2)))
	lose := once(func(r request) error {
		if r.String() == "spec.a spec.kept" {
			return errLost
		}
		return nil
	})
	o.before = func(r request) error {
		if err := rejectsValue("bad", "spec", "b")(r); err != nil {
			return err
		}
		return lose(r)
	}
	s := o.begin()
	o.call(s, "a", succeeds, patch.MergePatch{"spec": m{"a": "x", "kept": "x"}})
	o.call(s, "b", succeeds, patch.MergePatch{"spec": m{"b": "bad"}})
	if _, err := o.tryWrite(s); err == nil {
		t.Fatal("Write returned no error")
	}
	o.edit(patch.MergePatch{"spec": m{"a": "foreign"}})
	o.write(s)
	equal(t, "B-01 spec", o.field("spec"), any(m{"size": int64(2), "a": "foreign", "kept": "x"}))
	equal(t, "handled state", s.Cause.New, m{"spec": m{"size": int64(2), "kept": "x"}})
}

// Values that the API server has altered in the request with one patch belong to the baseline.
func TestWrite_MergesAlteredValuesDuringIsolation(t *testing.T) {
	o := newOperator(t, defaults(), handled(1, sized(2)))
	o.before = rejectsValue("bad", "spec", "b")
	o.transforms = func(content m) {
		if spec := content["spec"].(m); spec["own"] != nil {
			spec["own"] = "altered"
		}
	}
	s := o.begin()
	o.call(s, "a", succeeds, own("x"))
	o.call(s, "b", succeeds, patch.MergePatch{"spec": m{"b": "bad"}})
	o.write(s)
	equal(t, "B-13 handled state", s.Cause.New, m{"spec": m{"size": int64(2), "own": "altered"}})
	next := o.begin().Cause
	equal(t, "old state", next.Old, m{"spec": m{"size": int64(1), "own": "altered"}})
	equal(t, "StalePin", next.StalePin, false)
}

func TestIsRejected(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want bool
	}{
		{"no error", nil, false},
		{"B-05 a temporary error", errUnavailable, false},
		{"B-05 a lost response", errLost, false},
		{"ERR-01 rejected content", errors.Join(&patch.RejectedError{Err: errInvalid}), true},
		{"PATCH-22 a changed list", errors.Join(&patch.ListConflictError{Path: "spec.tags"}), true},
		{"PATCH-20 gone", patch.ErrGone, false},
	} {
		t.Run(test.name, func(t *testing.T) { equal(t, "rejected", commit.IsRejected(test.err), test.want) })
	}
}
