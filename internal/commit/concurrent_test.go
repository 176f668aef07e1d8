package commit_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/suspension"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// A pending write from before a pause is dropped if another operator has handled the object meanwhile.
func TestOvertakenBy(t *testing.T) {
	annotated := func(key, value string) patch.MergePatch {
		return patch.MergePatch{"metadata": m{"annotations": m{key: value}}}
	}
	for _, test := range []struct {
		name      string
		edit      func(o *operator) // during the pause
		noPause   bool
		overtaken bool
		reads     int
	}{
		{"PIPE-20 no pause", func(o *operator) { o.edit(phase("Foreign")) }, true, false, 0},
		{"B-50 no change", func(*operator) {}, false, false, 1},
		{"B-50 a change of another field", func(o *operator) { o.edit(patch.MergePatch{"spec": m{"foreign": "x"}}) }, false, false, 1},
		{"B-50 a change to the same value", func(o *operator) { o.edit(phase("New")) }, false, false, 1},
		{"B-50 a change to another value", func(o *operator) { o.edit(phase("Foreign")) }, false, true, 1},
		{"B-50 another record", func(o *operator) { o.edit(annotated(prefix+"a", "{}")) }, false, true, 1},
		{"B-50 another baseline", func(o *operator) { o.edit(annotated(baselineKey, text(sized(2)))) }, false, true, 1},
		{"B-50 another annotation", func(o *operator) { o.edit(annotated("foreign", "x")) }, false, false, 1},
		{"B-06 the object is deleted", func(o *operator) { o.content = nil }, false, false, 1},
		{"B-06 the object was re-created", func(o *operator) { o.edit(patch.Merge(phase("Foreign"), patch.MergePatch{"metadata": m{"uid": "2"}})) }, false, false, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := handled(1, sized(2))
			obj.Object["status"] = m{"phase": "Old"}
			o := newOperator(t, defaults(), obj)
			s := o.begin()
			repeated := 0
			o.call(s, "a", succeeds, phase("New")).Repeat = func() { repeated++ }
			o.call(s, "b", succeeds, own("x"))
			if !test.noPause {
				o.pauses++
			}
			test.edit(o)
			live, err := s.OvertakenBy(o.ctx, 3)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "live reads", o.reads, test.reads)
			if !test.overtaken {
				if live != nil || repeated != 0 {
					t.Errorf("OvertakenBy returned %v, calls of Repeat: %d", live, repeated)
				}
				if o.content != nil && o.object().GetUID() == "1" && !test.noPause {
					equal(t, "pauses and suspensions", []int64{int64(s.Pauses), s.Suspensions}, []int64{1, 3})
				}
				return
			}
			equal(t, "object", live.(*unstructured.Unstructured), o.object())
			equal(t, "calls of Repeat", repeated, 1)
			equal(t, "pauses", s.Pauses, int32(0))
		})
	}
	t.Run("B-50 the object cannot be read", func(t *testing.T) {
		o := newOperator(t, defaults(), handled(1, sized(2)))
		s := o.begin()
		o.pauses, o.failReads = 1, errUnavailable
		if live, err := s.OvertakenBy(o.ctx, 0); live != nil || !errors.Is(err, errUnavailable) {
			t.Errorf("OvertakenBy returned %v, %v", live, err)
		}
		equal(t, "pauses", s.Pauses, int32(0))
	})
}

func TestIsUntouched(t *testing.T) {
	before := m{"status": m{"phase": "Old", "list": []any{"x"}}}
	for _, test := range []struct {
		name    string
		change  patch.MergePatch
		content m
		want    bool
	}{
		{"B-50 the former value", phase("New"), before, true},
		{"B-50 the new value", phase("New"), m{"status": m{"phase": "New"}}, true},
		{"B-50 another value", phase("New"), m{"status": m{"phase": "Foreign"}}, false},
		{"B-50 no value", phase("New"), m{"status": m{}}, false},
		{"B-50 another value of another field", phase("New"), m{"status": m{"phase": "Old", "list": []any{"y"}}}, true},
		{"B-50 a removed field that is absent", patch.MergePatch{"status": m{"phase": nil}}, m{"status": m{}}, true},
		{"B-50 a removed field with another value", patch.MergePatch{"status": m{"phase": nil}}, m{"status": m{"phase": "Foreign"}}, false},
		{"B-50 no change", nil, m{}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "untouched", commit.IsUntouched(test.change, before, test.content), test.want)
		})
	}
}

func TestSameFrameworkPart(t *testing.T) {
	one := object(sized(1), prefix+"a", "{}", baselineKey, text(sized(1)), pinKey, "{}")
	one.Object["status"] = m{"kopf": m{"progress": m{"a": m{}}}, "phase": "Up"}
	for _, test := range []struct {
		name   string
		change patch.MergePatch
		want   bool
	}{
		{"B-34 no change", nil, true},
		{"B-34 other fields", patch.MergePatch{"spec": m{"size": int64(2)}, "status": m{"phase": "Down"}, "metadata": m{"annotations": m{"foreign": "x"}}}, true},
		{"B-34 a record", patch.MergePatch{"metadata": m{"annotations": m{prefix + "a": "{...}"}}}, false},
		{"B-34 a removed record", patch.MergePatch{"metadata": m{"annotations": m{prefix + "a": nil}}}, false},
		{"B-34 a baseline", patch.MergePatch{"metadata": m{"annotations": m{baselineKey: "{}"}}}, false},
		{"B-34 a pin", patch.MergePatch{"metadata": m{"annotations": m{pinKey: nil}}}, false},
		{"B-34 empty maps in the status", patch.MergePatch{"status": m{"kopf": nil}}, true},
		{"B-34 a record in the status", patch.MergePatch{"status": m{"kopf": m{"progress": m{"a": m{"retries": int64(1)}}}}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOperator(t, defaults(), one)
			before := one.DeepCopy()
			equal(t, "same", o.committer.Builder.SameFrameworkPart(one.Object, test.change.Apply(one.Object)), test.want)
			equal(t, "same in the other direction", o.committer.Builder.SameFrameworkPart(test.change.Apply(one.Object), one.Object), test.want)
			equal(t, "compared object", one, before)
		})
	}
}

const holdTime = 13 * time.Second

// withFence runs a test of an operator with a fence, in virtual time. suspend suspends the process.
func withFence(t *testing.T, run func(t *testing.T, o *operator, suspend func())) {
	synctest.Test(t, func(t *testing.T) {
		obj := handled(1, sized(2))
		obj.Object["status"] = m{"phase": "Old"}
		o := newOperator(t, defaults(), obj)
		var ahead atomic.Int64
		o.committer.Fence = suspension.New(suspension.Options{
			Gap: 5 * time.Second, HoldTime: holdTime, WallClock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		})
		stop := o.committer.Fence.StartHeartbeat(t.Context(), func() {})
		defer stop()
		run(t, o, func() { ahead.Add(int64(time.Minute)) })
	})
}

// After a suspension of the process, nothing is written that was computed before it.
func TestGuard(t *testing.T) {
	withFence(t, func(t *testing.T, o *operator, suspend func()) {
		s := o.begin()
		o.call(s, "a", succeeds, phase("New"))
		suspend()
		if _, err := o.tryWrite(s); !errors.Is(err, suspension.ErrDetected) || o.pending != s {
			t.Errorf("during the hold: the error is %v, and the pending session %v", err, o.pending)
		}
		<-time.After(holdTime + time.Second)
		if _, err := o.tryWrite(s); !errors.Is(err, suspension.ErrDetected) {
			t.Errorf("after the hold: the error is %v", err)
		}
		equal(t, "requests", o.sent(), []string{})
		equal(t, "suspensions", o.committer.SuspensionCount(), int64(1))
		s.Suspensions = o.committer.SuspensionCount()
		o.write(s)
		equal(t, "requests after the check", o.sent(), []string{"/status status.phase", "+a +b +pinned-configuration"})
	})
	t.Run("without a fence", func(t *testing.T) {
		o := newOperator(t, defaults(), object(sized(1)))
		if o.committer.Guard(new(int64)) != nil || o.committer.SuspensionCount() != 0 {
			t.Error("the committer guards writes without a fence")
		}
		if suspensions, err := o.committer.AwaitFence(o.ctx); suspensions != 0 || err != nil {
			t.Errorf("AwaitFence returned %d, %v", suspensions, err)
		}
	})
}

// A handler that flushes after a suspension waits, and writes only to an unchanged object.
func TestFlush_AfterSuspension(t *testing.T) {
	for _, test := range []struct {
		name string
		edit func(o *operator)
		want error
	}{
		{"B-50 no change", func(*operator) {}, nil},
		{"B-50 a change of another field", func(o *operator) { o.edit(own("foreign")) }, nil},
		{"B-50 another operator has handled the object", func(o *operator) { o.edit(patch.MergePatch{"metadata": m{"annotations": m{prefix + "a": "{}"}}}) }, commit.ErrChangedConcurrently},
		{"B-06 the object is deleted", func(o *operator) { o.content = nil }, patch.ErrGone},
		{"B-06 the object was re-created", func(o *operator) { o.edit(patch.MergePatch{"metadata": m{"uid": "2"}}) }, patch.ErrGone},
		{"B-50 the object cannot be read", func(o *operator) { o.failReads = errUnavailable }, errUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			withFence(t, func(t *testing.T, o *operator, suspend func()) {
				s := o.begin()
				copied := copyOf(s, phase("New"))
				suspend()
				test.edit(o)
				began := time.Now()
				if err := o.flush(s, "a", copied); !errors.Is(err, test.want) {
					t.Errorf("the error is %v, want %v", err, test.want)
				}
				if waited := time.Since(began); waited < holdTime {
					t.Errorf("Flush has waited %s", waited)
				}
				equal(t, "written", len(o.sent()) > 0, test.want == nil)
				equal(t, "suspensions of the session", s.Suspensions, map[bool]int64{true: 1, false: 0}[test.want == nil])
			})
		})
	}
	t.Run("B-50 the context ends during the hold", func(t *testing.T) {
		withFence(t, func(t *testing.T, o *operator, suspend func()) {
			s := o.begin()
			copied := copyOf(s, phase("New"))
			suspend()
			ctx, cancel := context.WithTimeout(o.ctx, time.Second)
			defer cancel()
			if err := s.Flush(ctx, "a", copied); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the error is %v", err)
			}
			equal(t, "requests", o.sent(), []string{})
		})
	})
}

// An exact change is written only to the version for which it was computed.
func TestCommitterWrite_Exact(t *testing.T) {
	o := newOperator(t, defaults(), object(sized(1)))
	change := &patch.Change{Before: o.object(), FrameworkPatch: patch.MergePatch{"metadata": m{"labels": m{"shard": nil}}}, Exact: true}
	o.edit(own("foreign"))
	if _, err := o.committer.Write(o.ctx, change, new(int64)); !apierrors.IsConflict(err) {
		t.Errorf("the error is %v, want a conflict", err)
	}
	equal(t, "requests", o.sent(), []string{"metadata.labels.shard"})
	change.Before = o.object()
	written, err := o.committer.Write(o.ctx, change, new(int64))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "response", written, client.Object(o.object()))
}
