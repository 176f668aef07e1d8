package commit_test

import (
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// The patches of a deleted object are not written, and its finalizer is not added again.
func TestWrite_OfDeletedObject(t *testing.T) {
	for _, test := range []struct {
		name    string
		builder *commit.Builder
		before  func(o *operator) func(request) error
		want    []string
	}{
		{"PATCH-20 before the first request", defaults(), nil, []string{"/status status.phase"}},
		{"PATCH-20 before the pin", watched(), nil, []string{"+pinned-configuration"}},
		{
			"PATCH-20 after a rejected request", defaults(), func(o *operator) func(request) error {
				return once(func(request) error {
					o.content = nil
					return errInvalid
				})
			},
			[]string{"/status status.phase", "/status status.phase"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOperator(t, test.builder, handled(1, sized(2)))
			s := o.begin()
			o.call(s, "a", succeeds, phase("Up"))
			if test.before != nil {
				o.before = test.before(o)
			} else {
				o.content = nil
			}
			if written := o.write(s); written != nil {
				t.Errorf("Write returned %v", written)
			}
			equal(t, "requests", o.sent(), test.want)
			if !o.memory.FoundDeleted || !o.aborted || o.pending != nil || o.wasDeleted != 1 {
				t.Errorf("FoundDeleted = %t, Aborted = %t, Pending = %v, calls of Deleted: %d", o.memory.FoundDeleted, o.aborted, o.pending, o.wasDeleted)
			}
		})
	}
	t.Run("B-06 the object was re-created", func(t *testing.T) {
		o := newOperator(t, defaults(), handled(1, sized(2)))
		s := o.begin()
		o.call(s, "a", succeeds, own("x"))
		o.edit(patch.MergePatch{"metadata": m{"uid": "2"}})
		before := o.object()
		if written := o.write(s); written != nil || !o.memory.FoundDeleted {
			t.Errorf("Write returned %v, FoundDeleted = %t", written, o.memory.FoundDeleted)
		}
		equal(t, "the other object", o.object(), before)
	})
	t.Run("B-06 an object whose pending write finds it gone", func(t *testing.T) {
		o := newOperator(t, defaults(), handled(1, sized(2)))
		s := o.begin()
		o.call(s, "a", succeeds, phase("Up"))
		o.before = once(containing("/status", errUnavailable))
		if _, err := o.tryWrite(s); err == nil || o.pending != s {
			t.Fatalf("the error is %v, and the pending session %v", err, o.pending)
		}
		o.content = nil
		if written := o.write(s); written != nil || !o.memory.FoundDeleted {
			t.Errorf("Write returned %v, FoundDeleted = %t", written, o.memory.FoundDeleted)
		}
	})
	t.Run("PATCH-20 the object is gone after four failures", func(t *testing.T) {
		o := newOperator(t, defaults(), deleted(handled(1, sized(1))))
		s := o.begin()
		o.call(s, "a", succeeds, phase("Down"))
		o.finish(s, "b")
		o.before = containing("/status", errUnavailable)
		for range 4 {
			if _, err := o.tryWrite(s); err == nil {
				t.Fatal("Write returned no error")
			}
		}
		o.content, o.before = nil, nil
		o.sent()
		o.write(s)
		equal(t, "requests", o.sent(), []string{"/status status.phase"})
		equal(t, "log", o.logs, []string{})
	})
	t.Run("FIN-06 a release is remembered", func(t *testing.T) {
		o := newOperator(t, defaults(), deleted(handled(1, sized(1))))
		s := o.begin()
		o.call(s, "a", succeeds, nil)
		o.write(s)
		if o.memory.FinalizerRemoved {
			t.Error("FinalizerRemoved is true while handlers are running")
		}
		o.finish(s, "b")
		o.write(s)
		equal(t, "requests", o.sent(), []string{"+a +b", "metadata.finalizers -a -b"})
		if !o.memory.FinalizerRemoved || o.content != nil {
			t.Errorf("FinalizerRemoved = %t, object %v", o.memory.FinalizerRemoved, o.content)
		}
	})
	t.Run("B-42 a deletion waits for daemons", func(t *testing.T) {
		o := newOperator(t, defaults(), deleted(handled(1, sized(1))))
		s := o.finish(o.begin(), "a", "b")
		s.EndCalls(true)
		o.write(s)
		equal(t, "requests", o.sent(), []string{"+a +b"})
		equal(t, "finished", s.IsFinished(), false)
	})
}
