package commit_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A write sends what the object lacks, in as few requests as possible.
func TestWrite_SendsRequests(t *testing.T) {
	withoutStatus := defaults()
	withoutStatus.HasStatus = false
	withFinalizers := func(obj *unstructured.Unstructured, all ...any) *unstructured.Unstructured {
		obj.Object["metadata"].(m)["finalizers"] = all
		return obj
	}
	for _, test := range []struct {
		name    string
		builder *commit.Builder
		obj     *unstructured.Unstructured
		do      func(o *operator, s *commit.Session)
		want    []string
	}{
		{"PATCH-05 nothing to write", defaults(), handled(1, sized(1)), func(*operator, *commit.Session) {}, nil},
		{"PROG-13 records and pin of a running creation", defaults(), object(sized(1)), func(*operator, *commit.Session) {}, []string{"+a +b +pinned-configuration"}},
		{
			"PATCH-05 the object has the values already", defaults(), handled(1, m{"spec": m{"size": int64(1)}, "status": m{"phase": "Up"}}),
			func(o *operator, s *commit.Session) { o.call(s, "a", succeeds, phase("Up")) }, nil,
		},
		{
			"B-14 the status before the success of its handler", defaults(), object(sized(1)),
			func(o *operator, s *commit.Session) {
				o.call(s, "a", succeeds, phase("Up"))
				o.finish(s, "b")
			},
			[]string{"/status status.phase", "+last-handled-configuration"},
		},
		{
			"B-14 the status after the other fields, because it contains the records", newBuilder(progress.Status(""), progress.AnnotationBaseline("")), object(sized(1)),
			func(o *operator, s *commit.Session) { o.call(s, "a", succeeds, phase("Up")) },
			[]string{"+pinned-configuration", "/status status.kopf status.phase"},
		},
		{
			"PATCH-04 a kind without the status subresource", withoutStatus, object(sized(1)),
			func(o *operator, s *commit.Session) {
				o.call(s, "a", succeeds, phase("Up"))
				o.finish(s, "b")
			},
			[]string{"status.phase +last-handled-configuration"},
		},
		{
			"FIN-06 FIN-14 a finished deletion releases the object", defaults(), withFinalizers(deleted(handled(1, sized(1))), "other", finalizer),
			func(o *operator, s *commit.Session) { o.finish(s, "a", "b") }, []string{"metadata.finalizers"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOperator(t, test.builder, test.obj)
			s := o.begin()
			test.do(o, s)
			written := o.write(s)
			equal(t, "requests", o.sent(), test.want)
			equal(t, "returned object", written, o.object())
			if s.Draft.HasChanges() {
				t.Errorf("pending changes after the write: %v", s.Draft.Patches())
			}
		})
	}
}

// A session continues with the object of the response: a second write sends only what was added since.
func TestWrite_ContinuesWithResponse(t *testing.T) {
	o := newOperator(t, defaults(), handled(1, sized(2)))
	s := o.begin()
	o.edit(patch.MergePatch{"spec": m{"foreign": "x"}}) // between the read and the write
	o.call(s, "a", succeeds, own("x"))
	o.write(s)
	equal(t, "first requests", o.sent(), []string{"spec.own +a +b +last-handled-configuration +pinned-configuration"})
	equal(t, "B-13 old state", s.Cause.Old, m{"spec": m{"size": int64(1), "own": "x"}})
	equal(t, "B-01 handled state", s.Cause.New, m{"spec": m{"size": int64(2), "own": "x"}})
	equal(t, "present state", s.Cause.Live, m{"spec": m{"size": int64(2), "own": "x", "foreign": "x"}})
	equal(t, "handlers receive the object of the response", s.Draft.Current().Object, client.Object(o.object()))

	o.call(s, "b", succeeds, phase("Up"))
	o.finish(s)
	o.write(s)
	equal(t, "B-14 second requests", o.sent(), []string{"/status status.phase", "-a -b +last-handled-configuration -pinned-configuration"})
	equal(t, "B-01 the foreign change is not part of the baseline", o.baselines, []string{
		text(m{"spec": m{"size": int64(1), "own": "x"}}), text(m{"spec": m{"size": int64(2), "own": "x"}}),
	})
	equal(t, "changes for the host", o.afterWrites, []string{"9[spec.own]", "11[status.phase]"})
	equal(t, "B-10 versions that the cache must show", o.awaited, []string{"9", "11"})
	equal(t, "versions of own writes", o.ownVersions, []string{"9", "10", "11"})
	equal(t, "versions of responses", o.received, []string{"9", "11"})
	equal(t, "next reason", o.begin().Cause.Reason, cause.Update)
}

// If a request changes nothing, no event will follow, and the cache need not show a new version.
func TestWrite_AwaitsNothingAfterRequestWithoutChange(t *testing.T) {
	o := newOperator(t, defaults(), handled(1, m{"spec": m{"size": int64(1)}, "status": m{"phase": "Up"}}))
	s := o.begin()
	o.transforms = func(content m) { content["status"] = m{"phase": "Up"} } // a webhook restores it
	o.call(s, "a", succeeds, phase("Down"))
	o.write(s)
	equal(t, "requests", o.sent(), []string{"/status status.phase"})
	equal(t, "B-10 awaited versions", o.awaited, []string{""})
}

// After an error, the session is pending. A second write continues with the request that has failed.
func TestWrite_ContinuesAfterError(t *testing.T) {
	const state = "+a +b +pinned-configuration"
	for _, test := range []struct {
		name          string
		before, after func(request) error
		first, second []string
	}{
		{"B-05 the first request", containing("/status", errUnavailable), nil, []string{"/status status.phase"}, []string{"/status status.phase", state}},
		{"B-05 PATCH-21 the second request", containing("+a", errUnavailable), nil, []string{"/status status.phase", state}, []string{state}},
		{"B-14 the response to the first request is lost", nil, containing("/status", errLost), []string{"/status status.phase"}, []string{"/status status.phase", state}},
		{"B-14 the response to the second request is lost", nil, containing("+a", errLost), []string{"/status status.phase", state}, []string{state}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOperator(t, defaults(), handled(1, sized(2)))
			s := o.begin()
			o.call(s, "a", succeeds, phase("Up"))
			if test.before != nil {
				o.before = once(test.before)
			}
			if test.after != nil {
				o.after = once(test.after)
			}
			_, err := o.tryWrite(s)
			if err == nil || !strings.HasPrefix(err.Error(), "writing the object: ") {
				t.Errorf("the error is %v", err)
			}
			if o.pending != s || len(o.afterWrites) > 0 || !s.Draft.HasChanges() {
				t.Errorf("Pending = %v, afterWrites = %v, HasChanges = %t", o.pending, o.afterWrites, s.Draft.HasChanges())
			}
			equal(t, "first requests", o.sent(), test.first)
			o.write(o.pending)
			equal(t, "second requests", o.sent(), test.second)
			equal(t, "phase", o.field("status", "phase"), any("Up"))
			equal(t, "B-14 a is not called again", o.begin().Records.Due(now), []string{"b"})
			equal(t, "successful writes", len(o.afterWrites), 1)
		})
	}
}

// If the outcome of a request is unknown, another client may have replaced its values. They are then not written again.
func TestWrite_DropsFieldsOfConcurrentChange(t *testing.T) {
	for _, test := range []struct {
		name            string
		lost            string
		sent            patch.MergePatch
		foreign         patch.MergePatch
		want            m // the spec and the status on the server
		handled, former m
	}{
		{
			"B-01 in the status", "/status", patch.MergePatch{"status": m{"phase": "Up", "other": "x"}}, phase("Foreign"),
			m{"spec": sized(2)["spec"], "status": m{"phase": "Foreign", "other": "x"}}, sized(2), sized(1),
		},
		{
			"B-01 in the spec: the foreign change is the next update", "spec.own", patch.MergePatch{"spec": m{"own": "x", "kept": "x"}}, own("foreign"),
			m{"spec": m{"size": int64(2), "own": "foreign", "kept": "x"}},
			m{"spec": m{"size": int64(2), "kept": "x"}}, m{"spec": m{"size": int64(1), "kept": "x"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOperator(t, defaults(), handled(1, sized(2)))
			s := o.begin()
			o.call(s, "a", succeeds, test.sent)
			o.before = once(containing(test.lost, errLost)) // it is not accepted, but the client cannot know that
			if _, err := o.tryWrite(s); err == nil {
				t.Fatal("Write returned no error")
			}
			o.edit(test.foreign)
			o.write(o.pending)
			got := m{}
			for _, field := range []string{"spec", "status"} {
				if value, ok := o.content[field]; ok {
					got[field] = value
				}
			}
			equal(t, "object", got, test.want)
			equal(t, "handled state", s.Cause.New, test.handled)
			equal(t, "old state", s.Cause.Old, test.former)
			if !slices.ContainsFunc(o.logs, func(line string) bool { return strings.Contains(line, "Dropped changes of handlers") }) {
				t.Errorf("the log is %q", o.logs)
			}
			equal(t, "B-14 a is not called again", o.begin().Records.Due(now), []string{"b"})
		})
	}
}

// Other changes that cannot be written do not hold an object that is being deleted.
func TestWrite_ReleasesObjectAfterFailures(t *testing.T) {
	for _, test := range []struct {
		name    string
		patch   patch.MergePatch
		records bool
		fails   string
		want    []string
	}{
		{"FIN-06 B-31 changes of handlers", phase("Down"), false, "/status", []string{"/status status.phase", "metadata.finalizers"}},
		{"FIN-06 B-31 removal of records", nil, true, "-a", []string{"metadata.finalizers -a", "metadata.finalizers"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := deleted(handled(1, sized(1)))
			if test.records {
				store(t, defaults(), obj, map[string]progress.Record{"a": waiting("delete")})
			}
			o := newOperator(t, defaults(), obj)
			o.before = containing(test.fails, errUnavailable)
			s := o.begin()
			o.call(s, "a", succeeds, test.patch)
			o.finish(s, "b")
			for attempt := 1; attempt <= 4; attempt++ {
				if _, err := o.tryWrite(s); err == nil {
					t.Fatalf("attempt %d returned no error", attempt)
				}
				equal(t, "requests", o.sent(), test.want[:1])
			}
			o.write(s)
			equal(t, "requests of the fifth attempt", o.sent(), test.want)
			if o.content != nil || !o.memory.FinalizerRemoved {
				t.Errorf("the object is %v, FinalizerRemoved = %t", o.content, o.memory.FinalizerRemoved)
			}
		})
	}
	t.Run("FIN-06 the removal of the finalizer alone is retried", func(t *testing.T) {
		o := newOperator(t, defaults(), deleted(handled(1, sized(1))))
		o.before = func(request) error { return errUnavailable }
		s := o.finish(o.begin(), "a", "b")
		for range 7 {
			if _, err := o.tryWrite(s); err == nil || o.pending != s {
				t.Fatalf("the error is %v, and the pending session %v", err, o.pending)
			}
		}
		o.before = nil
		o.write(s)
		equal(t, "object", o.content, m(nil))
	})
	t.Run("B-05 the changes of other causes are retried for ever", func(t *testing.T) {
		o := newOperator(t, defaults(), handled(1, sized(2)))
		o.before = containing("/status", errUnavailable)
		s := o.begin()
		o.call(s, "a", succeeds, phase("Up"))
		for range 7 {
			if _, err := o.tryWrite(s); err == nil {
				t.Fatal("Write returned no error")
			}
		}
		o.before = nil
		o.write(s)
		equal(t, "phase", o.field("status", "phase"), any("Up"))
	})
}

// The API server may store other values than handlers have set. They are not an update.
func TestWrite_StoresBaselineOfAlteredValues(t *testing.T) {
	alter := func(content m) {
		if spec := content["spec"].(m); spec["own"] != nil {
			spec["own"] = "altered"
		}
	}
	drop := func(content m) { delete(content["spec"].(m), "own") }
	with := func(size int) m { return m{"spec": m{"size": int64(size), "own": "altered"}} }
	for _, test := range []struct {
		name       string
		obj        *unstructured.Unstructured
		transforms func(m)
		finish     bool
		want       []string
		stored     string
		next       cause.Reason
	}{
		{
			"B-13 a finished creation", object(sized(1)), alter, true,
			[]string{"spec.own +last-handled-configuration", "+last-handled-configuration"}, text(with(1)), cause.Noop,
		},
		{
			"B-13 a running update", handled(1, sized(2)), alter, false,
			[]string{"spec.own +a +b +last-handled-configuration +pinned-configuration", "+last-handled-configuration +pinned-configuration"}, text(with(1)), cause.Update,
		},
		{
			"B-13 PATCH-30 a field that the schema lacks", object(sized(1)), drop, true,
			[]string{"spec.own +last-handled-configuration", "+last-handled-configuration"}, text(sized(1)), cause.Noop,
		},
		{
			"B-13 no difference", object(sized(1)), nil, true,
			[]string{"spec.own +last-handled-configuration"}, text(m{"spec": m{"size": int64(1), "own": "x"}}), cause.Noop,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOperator(t, defaults(), test.obj)
			o.transforms = test.transforms
			s := o.begin()
			o.call(s, "a", succeeds, own("x"))
			if test.finish {
				o.finish(s, "b")
			}
			o.write(s)
			equal(t, "requests", o.sent(), test.want)
			equal(t, "stored baseline", strings.TrimSpace(o.object().GetAnnotations()[baselineKey]), test.stored)
			equal(t, "last reported baseline", o.baselines[len(o.baselines)-1], test.stored)
			equal(t, "changed", s.Cause.Live, o.committer.Builder.Detector.Essence.Build(o.content))
			next := o.begin().Cause
			equal(t, "next reason", next.Reason, test.next)
			equal(t, "StalePin", next.StalePin, false)
		})
	}
	t.Run("B-13 the difference in a live read may be a foreign change", func(t *testing.T) {
		o := newOperator(t, defaults(), handled(1, sized(2)))
		o.after = once(containing("spec.own", errLost))
		s := o.begin()
		o.call(s, "a", succeeds, own("x"))
		if _, err := o.tryWrite(s); err == nil {
			t.Fatal("Write returned no error")
		}
		o.edit(own("foreign"))
		o.write(o.pending)
		equal(t, "handled state", s.Cause.New, m{"spec": m{"size": int64(2), "own": "x"}})
		equal(t, "present state", s.Cause.Live, m{"spec": m{"size": int64(2), "own": "foreign"}})
	})
}

// watched returns a builder for a kind with a handler that watches the phase in the status.
func watched() *commit.Builder {
	b := defaults()
	b.Detector.Essence.Fields = [][]string{{"status", "phase"}}
	b.Detector.Watched = b.Detector.Essence.Fields
	return b
}

// If the status belongs to the essence, the pin is stored before a change of it.
func TestWrite_PinsBeforeWatchedStatus(t *testing.T) {
	for _, test := range []struct {
		name   string
		obj    func(b *commit.Builder) *unstructured.Unstructured
		change patch.MergePatch
		before func(request) error
		want   []string
	}{
		{
			"B-14 the pin of an update", func(*commit.Builder) *unstructured.Unstructured { return handled(1, sized(2)) }, phase("Up"), nil,
			[]string{"+pinned-configuration", "/status status.phase", "+a +b +pinned-configuration"},
		},
		{
			"B-14 the object is pinned already", func(b *commit.Builder) *unstructured.Unstructured {
				obj := store(t, b, handled(1, sized(2)), map[string]progress.Record{"a": waiting("update")})
				b.Pin.Store(obj, mustEncode(pin(2, 1), text(sized(1))))
				return obj
			}, phase("Up"), nil,
			[]string{"/status status.phase", "+a +b"},
		},
		{
			"B-14 a field that is not watched", func(*commit.Builder) *unstructured.Unstructured { return handled(1, sized(2)) }, patch.MergePatch{"status": m{"other": "x"}}, nil,
			[]string{"/status status.other", "+a +b +pinned-configuration"},
		},
		{
			"B-14 a resumption needs no pin", func(*commit.Builder) *unstructured.Unstructured { return handled(1, sized(1)) }, phase("Up"), nil,
			[]string{"/status status.phase", "+a +b"},
		},
		{
			"B-14 the API server rejects the pin", func(*commit.Builder) *unstructured.Unstructured { return handled(1, sized(2)) }, phase("Up"),
			once(containing("+pinned-configuration", errInvalid)),
			[]string{"+pinned-configuration", "/status status.phase", "+a +b +pinned-configuration"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := watched()
			o := newOperator(t, b, test.obj(b))
			o.before = test.before
			s := o.begin(initial)
			o.call(s, "a", progress.Outcome{Err: errLost, Attempted: true}, test.change)
			o.write(s)
			equal(t, "requests", o.sent(), test.want)
		})
	}
	t.Run("B-14 the pin cannot be written: the session is pending", func(t *testing.T) {
		o := newOperator(t, watched(), handled(1, sized(2)))
		o.before = once(containing("+pinned-configuration", errUnavailable))
		s := o.begin()
		o.call(s, "a", succeeds, phase("Up"))
		if _, err := o.tryWrite(s); err == nil || o.pending != s {
			t.Fatalf("the error is %v, and the pending session %v", err, o.pending)
		}
		equal(t, "first requests", o.sent(), []string{"+pinned-configuration"})
		o.write(s)
		equal(t, "second requests", o.sent(), []string{"+pinned-configuration", "/status status.phase", "+a +b +pinned-configuration"})
	})
	t.Run("B-14 a process that ends after the status handles the pinned state", func(t *testing.T) {
		o := newOperator(t, watched(), handled(1, sized(2)))
		o.before = containing("+a", errUnavailable)
		s := o.begin()
		o.call(s, "a", succeeds, phase("Up"))
		if _, err := o.tryWrite(s); err == nil {
			t.Fatal("Write returned no error")
		}
		o.memory = commit.Memory{}
		equal(t, "handled state", o.begin().Cause.New, sized(2))
	})
}

// A write without the resource version can also store a change that another client has made before it.
func TestWrite_NotesEditsOfOthers(t *testing.T) {
	labels := patch.MergePatch{"metadata": m{"labels": m{"a": "x"}}}
	for _, test := range []struct {
		name   string
		change patch.MergePatch // of the handler
		edit   patch.MergePatch // of another client; nil for none
		want   []string
	}{
		{"no edit", patch.Merge(own("x"), phase("Up")), nil, nil},
		{"no change and no edit", nil, nil, nil},
		{"B-28 of another field of the spec", own("x"), patch.MergePatch{"spec": m{"foreign": "x"}}, []string{"9 after 7"}},
		{"B-28 of a label", own("x"), labels, []string{"9 after 7"}},
		{"B-28 of another label", patch.MergePatch{"metadata": m{"labels": m{"b": "x"}}}, labels, []string{"9 after 7"}},
		{"B-28 of the status", own("x"), phase("Up"), []string{"9 after 7"}},
		{"B-28 before the first of two requests", patch.Merge(own("x"), phase("Up")), labels, []string{"9 after 7", "10 after 9"}},
		{"B-28 a deletion", own("x"), patch.MergePatch{"metadata": m{"deletionTimestamp": "2026-01-01T00:00:00Z"}}, []string{"8 after 7"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOperator(t, defaults(), handled(1, sized(2)))
			s := o.begin()
			o.call(s, "a", succeeds, test.change)
			o.finish(s, "b")
			if test.edit != nil {
				o.edit(test.edit)
			}
			o.write(s)
			equal(t, "own versions with changes of others", o.edited, test.want)
		})
	}
}
