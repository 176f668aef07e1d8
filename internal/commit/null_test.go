package commit_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// setting returns the copy of a handler that sets a field to a value, also to null.
func setting(s *commit.Session, value any, path ...string) *unstructured.Unstructured {
	copied := (&unstructured.Unstructured{Object: s.Draft.Current().Content}).DeepCopy()
	if err := unstructured.SetNestedField(copied.Object, value, path...); err != nil {
		panic(err)
	}
	return copied
}

// take makes a successful attempt of a handler that sets a field.
func (o *operator) take(s *commit.Session, id string, copied *unstructured.Unstructured) *commit.HandlerPatch {
	o.t.Helper()
	p := &commit.HandlerPatch{ID: id, Policy: progress.Policy{Backoff: &backoff}, Before: s.Records.Record(id), Base: s.Draft.Current().Content, Outcome: succeeds}
	var err error
	if p.Patch, err = o.committer.TakeChanges(o.ctx, s.Draft, id, copied); err != nil {
		o.t.Fatal(err)
	}
	s.Draft.Add(p)
	s.Records.RecordOutcome(id, succeeds, now)
	return p
}

// A merge patch cannot set a field to null, so the writer sends a JSON patch for exactly the state that it has read before.
func TestWrite_StoresNull(t *testing.T) {
	const json = "json: "
	for _, test := range []struct {
		name  string
		spec  m
		value any
		path  []string
		edit  patch.MergePatch // by another client, before the write
		want  []string
		after m
	}{
		{
			"a value becomes null", m{"size": int64(2), "auto": true}, nil, []string{"spec", "auto"}, nil,
			[]string{json + "spec.auto +last-handled-configuration"}, m{"size": int64(2), "auto": nil},
		},
		{
			"an absent field", sized(2)["spec"].(m), nil, []string{"spec", "auto"}, nil,
			[]string{json + "spec.auto +last-handled-configuration"}, m{"size": int64(2), "auto": nil},
		},
		{
			"a null in a new map", sized(2)["spec"].(m), m{"a": nil, "b": "x", "c": m{"d": nil}}, []string{"spec", "free"}, nil,
			[]string{json + "spec.free.a spec.free.b spec.free.c.d +last-handled-configuration"},
			m{"size": int64(2), "free": m{"a": nil, "b": "x", "c": m{"d": nil}}},
		},
		{
			"a null in a new list needs no JSON patch", sized(2)["spec"].(m), []any{nil, m{"a": nil}}, []string{"spec", "list"}, nil,
			[]string{"spec.list +last-handled-configuration"}, m{"size": int64(2), "list": []any{nil, m{"a": nil}}},
		},
		{
			"a null in an item of a list", m{"size": int64(2), "list": []any{m{}}}, []any{m{"a": nil}}, []string{"spec", "list"}, nil,
			[]string{"spec.list +last-handled-configuration"}, m{"size": int64(2), "list": []any{m{"a": nil}}},
		},
		{
			"a key with special characters", m{"size": int64(2), "free": m{}}, nil, []string{"spec", "free", "a/b~c"}, nil,
			[]string{json + "spec.free.a/b~c +last-handled-configuration"}, m{"size": int64(2), "free": m{"a/b~c": nil}},
		},
		{
			"a stored null", m{"size": int64(2), "auto": nil}, nil, []string{"spec", "auto"}, nil,
			[]string{"+last-handled-configuration"}, m{"size": int64(2), "auto": nil},
		},
		{
			"another client has changed other fields", m{"size": int64(2), "auto": true}, nil, []string{"spec", "auto"}, patch.MergePatch{"spec": m{"foreign": "x"}},
			[]string{json + "spec.auto +last-handled-configuration"}, m{"size": int64(2), "auto": nil, "foreign": "x"},
		},
		{
			"another client has removed the map around it", m{"size": int64(2), "free": m{"a": "x"}}, nil, []string{"spec", "free", "a"}, patch.MergePatch{"spec": m{"free": nil}},
			[]string{json + "spec.free.a +last-handled-configuration"}, m{"size": int64(2), "free": m{"a": nil}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := handled(1, m{"spec": test.spec})
			o := newOperator(t, defaults(), obj)
			s := o.begin()
			o.take(s, "a", setting(s, test.value, test.path...))
			o.finish(s, "b")
			if test.edit != nil {
				o.edit(test.edit)
			}
			o.write(s)
			equal(t, "requests", o.sent(), test.want)
			equal(t, "spec", o.field("spec"), any(test.after))
			equal(t, "number of log lines", len(o.logs), 0)
			if reason := o.begin().Cause.Reason; test.edit == nil && reason != cause.Noop {
				t.Errorf("the change of the handler causes %q", reason)
			}
			next := o.begin()
			o.take(next, "a", setting(next, test.value, test.path...))
			if next.Draft.HasChanges() {
				t.Errorf("the value is written again: %v", next.Draft.Patches()[0].Patch)
			}
		})
	}
}

func TestWrite_StoresNull_InStatus(t *testing.T) {
	obj := handled(1, sized(2))
	obj.Object["status"] = m{"phase": "Up"}
	o := newOperator(t, defaults(), obj)
	s := o.begin()
	copied := setting(s, nil, "status", "phase")
	if err := o.flush(s, "a", copied); err != nil {
		t.Fatal(err)
	}
	equal(t, "requests of the flush", o.sent(), []string{"/status json: status.phase"})
	equal(t, "status after the flush", o.field("status"), any(m{"phase": nil}))
	if err := unstructured.SetNestedField(copied.Object, nil, "status", "message"); err != nil {
		t.Fatal(err)
	}
	o.take(s, "a", copied)
	o.finish(s, "b")
	o.write(s)
	equal(t, "requests of the write", o.sent(), []string{"/status json: status.message", "+last-handled-configuration"})
	equal(t, "status", o.field("status"), any(m{"phase": nil, "message": nil}))
}

// Metadata contains no nulls: null removes a field there.
func TestWrite_NullInMetadata(t *testing.T) {
	obj := handled(1, sized(2))
	annotate(obj, "foreign", "x")
	o := newOperator(t, defaults(), obj)
	s := o.begin()
	copied := setting(s, nil, "metadata", "annotations", "foreign")
	copied.Object["metadata"].(m)["labels"] = m{"absent": nil}
	o.take(s, "a", copied)
	o.finish(s, "b")
	o.write(s)
	equal(t, "requests", o.sent(), []string{"-foreign +last-handled-configuration"})
	equal(t, "labels", o.object().GetLabels(), map[string]string(nil))
}

// Before the JSON patch, another client may change or replace the object.
func TestWrite_StoresNull_DespiteOthers(t *testing.T) {
	begin := func(t *testing.T) (*operator, *commit.Session) {
		o := newOperator(t, defaults(), handled(1, m{"spec": m{"size": int64(2), "auto": true, "list": []any{"x"}}}))
		s := o.begin()
		o.take(s, "a", setting(s, nil, "spec", "auto"))
		return o, o.finish(s, "b")
	}
	t.Run("a conflict", func(t *testing.T) {
		o, s := begin(t)
		o.before = func(request) error {
			if o.field("spec", "foreign") == nil {
				o.edit(patch.MergePatch{"spec": m{"foreign": "x", "list": []any{"x", "y"}}})
			}
			return nil
		}
		o.write(s)
		request := "json: spec.auto +last-handled-configuration"
		equal(t, "requests", o.sent(), []string{request, request})
		equal(t, "spec", o.field("spec"), any(m{"size": int64(2), "auto": nil, "foreign": "x", "list": []any{"x", "y"}}))
	})
	t.Run("a lost response", func(t *testing.T) {
		o, s := begin(t)
		o.after = once(containing("spec.auto", errLost))
		if _, err := o.tryWrite(s); err == nil {
			t.Fatal("Write returned no error")
		}
		o.edit(patch.MergePatch{"spec": m{"auto": false}})
		o.sent()
		o.write(s)
		equal(t, "the change of the other client stays", o.field("spec", "auto"), any(false))
	})
	t.Run("a new object of the same name", func(t *testing.T) {
		o, s := begin(t)
		o.edit(patch.MergePatch{"metadata": m{"uid": "2"}})
		if written := o.write(s); written != nil {
			t.Errorf("written object %v, want none", written)
		}
		equal(t, "number of requests", len(o.sent()), 0)
		equal(t, "spec", o.field("spec", "auto"), any(true))
	})
	t.Run("a failed read", func(t *testing.T) {
		o, s := begin(t)
		o.failReads = errLost
		if _, err := o.tryWrite(s); !errors.Is(err, errLost) || o.pending != s {
			t.Fatalf("the error is %v, and the pending session %v", err, o.pending)
		}
		o.failReads = nil
		o.write(s)
		equal(t, "spec", o.field("spec", "auto"), nil)
	})
}

// If the API server does not store a null, or restores the default of a removed field, this is logged once.
func TestWrite_ReportsNullsThatAreNotStored(t *testing.T) {
	for _, test := range []struct {
		name       string
		transforms func(spec m)
		change     func(spec m)
		want       string // the end of the log line
	}{
		{"the default of a null", func(spec m) {
			if spec["auto"] == nil {
				spec["auto"] = true
			}
		}, func(spec m) { spec["auto"] = nil }, "has set a field that the handler has removed or set to null"},
		{"the default of a removed field", func(spec m) {
			if spec["auto"] == nil {
				spec["auto"] = true
			}
		}, func(spec m) { delete(spec, "auto") }, "has set a field that the handler has removed or set to null"},
		{"a null is dropped", func(spec m) {
			if value, ok := spec["auto"]; ok && value == nil {
				delete(spec, "auto")
			}
		}, func(spec m) { spec["auto"] = nil }, "has dropped a null that the handler has set"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOperator(t, defaults(), handled(1, m{"spec": m{"size": int64(2), "auto": true}}))
			o.transforms = func(content m) { test.transforms(content["spec"].(m)) }
			s := o.begin()
			copied := (&unstructured.Unstructured{Object: s.Draft.Current().Content}).DeepCopy()
			test.change(copied.Object["spec"].(m))
			o.take(s, "a", copied)
			o.finish(s, "b")
			o.write(s)
			if len(o.logs) != 1 || !strings.Contains(o.logs[0], test.want) || !strings.Contains(o.logs[0], `"handler"="a" "field"="spec.auto"`) {
				t.Errorf("the log is %q, want one line with %q", o.logs, test.want)
			}
			next := o.begin()
			equal(t, "next reason", next.Cause.Reason, cause.Noop)
			copied = (&unstructured.Unstructured{Object: next.Draft.Current().Content}).DeepCopy()
			test.change(copied.Object["spec"].(m))
			o.take(next, "a", copied)
			o.write(next)
			equal(t, "the log is not repeated", len(o.logs), 1)
		})
	}
}
