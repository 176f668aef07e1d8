package commit_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// copyOf returns the copy of a handler with its changes.
func copyOf(s *commit.Session, doc patch.MergePatch) *unstructured.Unstructured {
	return (&unstructured.Unstructured{Object: doc.Apply(s.Draft.Current().Content)}).DeepCopy()
}

// Flush writes the changes of the status that a running handler has made so far.
func TestFlush(t *testing.T) {
	for _, test := range []struct {
		name    string
		builder *commit.Builder
		status  m
		change  patch.MergePatch
		edit    patch.MergePatch // by another client, before the flush
		want    []string
		after   m // the status on the server
	}{
		{"B-60 a change of the status", defaults(), m{"phase": "Old"}, phase("New"), nil, []string{"/status status.phase"}, m{"phase": "New"}},
		{"B-60 other fields are written later", defaults(), m{"phase": "Old"}, patch.Merge(own("x"), phase("New")), nil, []string{"/status status.phase"}, m{"phase": "New"}},
		{"PATCH-05 no change of the status", defaults(), m{"phase": "Old"}, own("x"), nil, nil, m{"phase": "Old"}},
		{"PATCH-05 no change", defaults(), m{"phase": "Old"}, nil, nil, nil, m{"phase": "Old"}},
		{"PATCH-07 another client has changed another field", defaults(), m{"phase": "Old"}, phase("New"), patch.MergePatch{"status": m{"foreign": "x"}}, []string{"/status status.phase", "/status status.phase"}, m{"phase": "New", "foreign": "x"}},
		{
			"B-14 the pin is written before a watched field", watched(), m{"phase": "Old"}, phase("New"), nil,
			[]string{"+pinned-configuration", "/status status.phase"}, m{"phase": "New"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := handled(1, sized(2))
			obj.Object["status"] = test.status
			o := newOperator(t, test.builder, obj)
			s := o.begin()
			copied := copyOf(s, test.change)
			if test.edit != nil {
				o.edit(test.edit)
			}
			if err := o.flush(s, "a", copied); err != nil {
				t.Fatal(err)
			}
			equal(t, "requests", o.sent(), test.want)
			equal(t, "status", o.field("status"), any(test.after))
			if len(test.want) > 0 {
				equal(t, "B-10 awaited versions", o.awaited[len(o.awaited)-1], o.object().GetResourceVersion())
				equal(t, "own versions", o.ownVersions[len(o.ownVersions)-1], o.object().GetResourceVersion())
				equal(t, "responses", o.received[len(o.received)-1], o.object().GetResourceVersion())
				equal(t, "reported flushes", o.afterParts, []string{o.object().GetResourceVersion() + "[status.phase]"})
			} else {
				equal(t, "reported flushes", o.afterParts, []string{})
			}
			if err := o.flush(s, "a", copied); err != nil {
				t.Fatal(err)
			}
			equal(t, "requests of a second flush", o.sent(), []string{})
			equal(t, "base", s.Draft.Content(), o.content)
		})
	}
}

// The reconcile continues with the object that a flush has written. The handler keeps its copy, and its other changes are written at its end.
func TestFlush_ContinuesReconcile(t *testing.T) {
	obj := handled(1, sized(2))
	obj.Object["status"] = m{"phase": "Old", "list": []any{"x"}}
	o := newOperator(t, defaults(), obj)
	s := o.begin()
	earlier := o.call(s, "a", succeeds, patch.MergePatch{"status": m{"phase": "Earlier", "a": "x"}})
	copied := copyOf(s, patch.Merge(own("x"), patch.MergePatch{"status": m{"phase": "New", "list": []any{"x", "own"}}}))
	if err := o.flush(s, "b", copied); err != nil {
		t.Fatal(err)
	}
	equal(t, "status", o.field("status"), any(m{"phase": "New", "list": []any{"x", "own"}}))
	equal(t, "the value of the earlier handler is superseded", earlier.Patch, patch.MergePatch{"status": m{"a": "x"}})

	o.edit(patch.MergePatch{"status": m{"phase": "Foreign", "list": []any{"x", "own", "foreign"}}})
	copied.Object["status"].(m)["list"] = []any{"own"}
	if err := o.flush(s, "b", copied); err == nil {
		t.Fatal("a list that another client has changed was overwritten")
	}
	if err := s.Draft.SetBase(o.object()); err != nil {
		t.Fatal(err)
	}
	o.call(s, "b", succeeds, own("x"))
	o.finish(s)
	o.sent()
	o.write(s)
	equal(t, "requests at the end", o.sent(), []string{"/status status.a", "spec.own +last-handled-configuration"})
	equal(t, "status at the end", o.field("status"), any(m{"phase": "Foreign", "list": []any{"x", "own", "foreign"}, "a": "x"}))
	equal(t, "next reason", o.begin().Cause.Reason, cause.Noop)
}

// A value that the object has already needs no request, but the handler has it from now on.
func TestFlush_OfStoredValue(t *testing.T) {
	obj := handled(1, sized(2))
	obj.Object["status"] = m{"phase": "Old"}
	o := newOperator(t, defaults(), obj)
	s := o.begin()
	earlier := o.call(s, "a", succeeds, phase("Earlier"))
	copied := copyOf(s, phase("Old"))
	if err := o.flush(s, "b", copied); err != nil {
		t.Fatal(err)
	}
	equal(t, "PATCH-05 requests", o.sent(), []string{})
	equal(t, "pending changes", s.Draft.HasChanges(), false)
	equal(t, "superseded patch", earlier.Patch, patch.MergePatch{})
	equal(t, "object for the following handlers", s.Draft.Current().Content["status"], any(m{"phase": "Old"}))
}

// A flushed field of the essence is the handler's own change: it belongs to the baseline.
func TestFlush_MergesCause(t *testing.T) {
	b := defaults()
	b.Detector.Essence.Fields = [][]string{{"status", "phase"}} // part of the essence, but not watched
	with := func(size int, value string) m { return m{"spec": m{"size": int64(size)}, "status": m{"phase": value}} }
	o := newOperator(t, b, object(with(2, "Old"), baselineKey, text(with(1, "Old"))+"\n"))
	s := o.begin()
	if err := o.flush(s, "a", copyOf(s, phase("New"))); err != nil {
		t.Fatal(err)
	}
	equal(t, "B-13 old state", s.Cause.Old, with(1, "New"))
	equal(t, "B-13 handled state", s.Cause.New, with(2, "New"))
	equal(t, "present state", s.Cause.Live, with(2, "New"))
	o.finish(s, "a", "b")
	o.write(s)
	equal(t, "stored baseline", strings.TrimSpace(o.object().GetAnnotations()[baselineKey]), text(with(2, "New")))
}

// A flush that fails changes nothing.
func TestFlush_ReturnsErrors(t *testing.T) {
	for _, test := range []struct {
		name    string
		prepare func(o *operator)
		change  func(copied *unstructured.Unstructured)
		want    error
		sent    []string
	}{
		{"B-05 the operator has ended", func(o *operator) { o.ended = true }, nil, commit.ErrEnded, nil},
		{"PATCH-20 the object is gone", func(o *operator) { o.content = nil }, nil, patch.ErrGone, []string{"/status status.phase"}},
		{"PATCH-21 the API server is not available", func(o *operator) { o.before = containing("/status", errUnavailable) }, nil, errUnavailable, []string{"/status status.phase"}},
		{"B-05 the API server rejects the status", func(o *operator) { o.before = containing("/status", errInvalid) }, nil, errInvalid, []string{"/status status.phase"}},
		{"B-06 another object", func(*operator) {}, func(copied *unstructured.Unstructured) { copied.SetName("other") }, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOperator(t, defaults(), handled(1, sized(2)))
			s := o.begin()
			before := s.Draft.Current()
			copied := copyOf(s, phase("New"))
			if test.change != nil {
				test.change(copied)
			}
			test.prepare(o)
			err := o.flush(s, "a", copied)
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("the error is %v, want %v", err, test.want)
			}
			equal(t, "requests", o.sent(), test.sent)
			equal(t, "object for handlers", s.Draft.Current().Content, before.Content)
			equal(t, "old state", s.Cause.Old, sized(1))
		})
	}
	t.Run("B-14 the pin before a watched field", func(t *testing.T) {
		o := newOperator(t, watched(), handled(1, sized(2)))
		o.before = containing("+pinned-configuration", errUnavailable)
		s := o.begin()
		if err := o.flush(s, "a", copyOf(s, phase("New"))); !errors.Is(err, errUnavailable) {
			t.Errorf("the error is %v", err)
		}
		equal(t, "requests", o.sent(), []string{"+pinned-configuration"})
	})
}

// A field that the API server does not store is logged once for each handler.
func TestReportDropped(t *testing.T) {
	const dropped = "The API server has dropped a field"
	count := func(o *operator) (n int) {
		for _, line := range o.logs {
			if strings.Contains(line, dropped) {
				n++
			}
		}
		return n
	}
	o := newOperator(t, defaults(), handled(1, sized(2)))
	o.transforms = func(content m) {
		if status, _ := content["status"].(m); status != nil {
			delete(status, "unknown")
		}
	}
	flush := func(id string, doc patch.MergePatch) {
		s := o.begin()
		if err := o.flush(s, id, copyOf(s, doc)); err != nil {
			t.Fatal(err)
		}
	}
	flush("a", phase("New"))
	equal(t, "PATCH-30 stored fields", count(o), 0)
	flush("a", patch.MergePatch{"status": m{"unknown": "x"}})
	equal(t, "PATCH-30 a dropped field", count(o), 1)
	if line := o.logs[len(o.logs)-1]; !strings.Contains(line, `"resource"="widgets.example.com"`) || !strings.Contains(line, `"field"="status.unknown"`) || !strings.Contains(line, `"handler"="a"`) {
		t.Errorf("the log line is %s", line)
	}
	flush("a", patch.MergePatch{"status": m{"unknown": "y"}})
	equal(t, "PATCH-30 the same field", count(o), 1)
	flush("b", patch.MergePatch{"status": m{"unknown": "x"}})
	equal(t, "PATCH-30 another handler", count(o), 2)
	flush("", patch.MergePatch{"status": m{"unknown": "x"}})
	equal(t, "PATCH-30 changes of the framework", count(o), 2)

	o.committer.Writer.GVK.Group = "apps"
	o.edit(patch.MergePatch{"apiVersion": "apps/v1"})
	flush("c", patch.MergePatch{"status": m{"unknown": "x"}})
	equal(t, "PATCH-30 a built-in kind", slices.ContainsFunc(o.logs, func(line string) bool { return strings.Contains(line, "built-in kind") }), true)
	o.committer.Writer.GVK.Group = "other.com"
	o.edit(patch.MergePatch{"apiVersion": "other.com/v1"})
	flush("d", patch.MergePatch{"status": m{"unknown": "x"}})
	equal(t, "PATCH-30 a kind that the REST mapper does not know", strings.Contains(o.logs[len(o.logs)-1], `"resource"="widget.other.com"`), true)

	o.committer.Writer.GVK.Group = "networking.k8s.io" // built-in kinds and CustomResourceDefinitions can have such a group
	o.edit(patch.MergePatch{"apiVersion": "networking.k8s.io/v1"})
	flush("e", patch.MergePatch{"status": m{"unknown": "x"}})
	if line := o.logs[len(o.logs)-1]; !strings.Contains(line, "if a CustomResourceDefinition defines the kind") || !strings.Contains(line, "keep the value in an annotation") {
		t.Errorf("PATCH-30: the log line about a kind of networking.k8s.io is %s", line)
	}
}
