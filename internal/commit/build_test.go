package commit_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// waiting is the record of a handler of an update that was called once.
func waiting(reason string) progress.Record {
	return progress.Record{Started: now.Add(-time.Minute), Purpose: reason, Retries: 1, Message: "later"}
}

// The framework's part of a write follows from the cause and from whether it has finished.
func TestBuild_StoresState(t *testing.T) {
	b := defaults()
	running := map[string]progress.Record{"a": waiting("update")}
	delayed := progress.Record{Started: now, Purpose: "update", Retries: 1, Delayed: now.Add(time.Hour)}
	for _, test := range []struct {
		name    string
		begin   func(t *testing.T) *reconcile
		want    map[string]bool // changed annotations
		stored  string          // the baseline that the write stores; empty: none
		handled m
		release bool
	}{
		{
			name: "PROG-13 B-01 a running creation", begin: func(t *testing.T) *reconcile { return begin(t, b, object(sized(1))) },
			want: set("+a", "+b", setPin), handled: sized(1),
		},
		{
			name: "PROG-13 B-01 a running update", begin: func(t *testing.T) *reconcile { return begin(t, b, handled(1, sized(2))) },
			want: set("+a", "+b", setPin), handled: sized(2),
		},
		{
			name: "PROG-13 a running resumption needs no pin", begin: func(t *testing.T) *reconcile { return begin(t, b, handled(1, sized(1)), initial) },
			want: set("+a", "+b"), handled: sized(1),
		},
		{
			name: "PROG-13 a running deletion needs no pin", begin: func(t *testing.T) *reconcile { return begin(t, b, deleted(handled(1, sized(2)))) },
			want: set("+a", "+b"), handled: sized(2),
		},
		{
			name: "PROG-23 a deletion replaces the records of an update", want: set("+a", "+b", removePin), handled: sized(2),
			begin: func(t *testing.T) *reconcile {
				obj := store(t, b, deleted(handled(1, sized(2))), running)
				b.Pin.Store(obj, []byte("{}"))
				return begin(t, b, obj)
			},
		},
		{
			name: "PROG-21 a creation that finishes in one reconcile", begin: func(t *testing.T) *reconcile { return begin(t, b, object(sized(1))).finish() },
			want: set(setBaseline), stored: text(sized(1)), handled: sized(1),
		},
		{
			name: "PROG-20 ESS-16 a finished update", want: set(setBaseline, "-a", removePin), stored: text(sized(2)), handled: sized(2),
			begin: func(t *testing.T) *reconcile {
				obj := store(t, b, handled(1, sized(2)), running)
				b.Pin.Store(obj, mustEncode(pin(2, 1), text(sized(1))))
				return begin(t, b, obj).finish()
			},
		},
		{
			name: "B-01 an update of an object that was edited meanwhile", want: set(setBaseline, "-a", removePin), stored: text(sized(2)), handled: sized(2),
			begin: func(t *testing.T) *reconcile {
				obj := store(t, b, handled(1, sized(3)), running)
				b.Pin.Store(obj, mustEncode(pin(2, 1), text(sized(1))))
				return begin(t, b, obj).finish()
			},
		},
		{
			name: "B-02 a handler has seen a later edit: its state remains in the pin", want: set(setBaseline, "-a", setPin), stored: text(sized(2)), handled: sized(2),
			begin: func(t *testing.T) *reconcile {
				obj := store(t, b, handled(1, sized(3)), running)
				b.Pin.Store(obj, mustEncode(pin(2, 1), text(sized(1))))
				r := begin(t, b, obj).finish()
				r.cause = r.cause.WithSeen()
				return r
			},
		},
		{
			name: "B-29 the records of unknown handlers are removed at the end", want: set(setBaseline, "-gone"), stored: text(sized(2)), handled: sized(2),
			begin: func(t *testing.T) *reconcile {
				return begin(t, b, store(t, b, handled(1, sized(2)), map[string]progress.Record{"gone": waiting("update")})).finish()
			},
		},
		{
			name: "ESS-19 a resumption that finishes in one reconcile stores nothing", handled: sized(1),
			begin: func(t *testing.T) *reconcile { return begin(t, b, handled(1, sized(1)), initial).finish() },
		},
		{
			name: "ESS-16 an update to the same essence: the baseline is not encoded again", handled: m{"spec": m{"size": int64(1)}},
			begin: func(t *testing.T) *reconcile {
				return begin(t, b, object(sized(1), baselineKey, `{"spec": {"size": 1.0}}`), initial).finish()
			},
		},
		{
			name: "FIN-06 a finished deletion releases the object and stores no baseline", want: set("-a"), handled: sized(2), release: true,
			begin: func(t *testing.T) *reconcile {
				return begin(t, b, store(t, b, deleted(handled(1, sized(2))), map[string]progress.Record{"a": waiting("delete")})).finish()
			},
		},
		{name: "PIPE-21 no cause", begin: func(t *testing.T) *reconcile { return begin(t, b, handled(1, sized(1))) }, handled: sized(1)},
		{
			name: "B-02 no cause: stale records are removed", want: set("-a", removePin), handled: sized(1),
			begin: func(t *testing.T) *reconcile {
				obj := store(t, b, handled(1, sized(1)), running)
				b.Pin.Store(obj, []byte("{}"))
				return begin(t, b, obj)
			},
		},
		{
			name: "B-11 no cause: delays remain", handled: sized(1), want: set("-b"),
			begin: func(t *testing.T) *reconcile {
				return begin(t, b, store(t, b, handled(1, sized(1)), map[string]progress.Record{"a": delayed, "b": waiting("update")}))
			},
		},
		{
			name: "B-11 no cause, the object leaves the selection: delays are removed", handled: sized(1), want: set("-a", removePin),
			begin: func(t *testing.T) *reconcile {
				obj := store(t, b, handled(1, sized(1)), map[string]progress.Record{"a": delayed})
				b.Pin.Store(obj, []byte("{}"))
				r := begin(t, b, obj)
				r.in.Leaving = true
				return r
			},
		},
		{
			name: "PROG-26 an object without our finalizer that is being deleted", handled: sized(2),
			begin: func(t *testing.T) *reconcile {
				obj := store(t, b, deleted(handled(1, sized(2))), running)
				obj.SetFinalizers(nil)
				return begin(t, b, obj)
			},
		},
		{
			name: "B-13 no cause, a daemon has edited the object: the baseline includes it", want: set(setBaseline), handled: sized(2), stored: text(sized(2)),
			begin: func(t *testing.T) *reconcile {
				return begin(t, b, handled(1, sized(2)), func(in *cause.Input) {
					in.Edits = []cause.BackgroundEdit{{Base: sized(1), Patch: patch.MergePatch{"spec": m{"size": int64(2)}}}}
				})
			},
		},
		{
			name: "B-13 no handler matches any more: the baseline remains", handled: sized(2),
			begin: func(t *testing.T) *reconcile {
				r := begin(t, b, handled(1, sized(2)), func(in *cause.Input) {
					in.Edits = []cause.BackgroundEdit{{Base: sized(1), Patch: patch.MergePatch{"spec": m{"size": int64(2)}}}}
				})
				r.in.Unmatched = true
				return r
			},
		},
		{
			name: "B-02 a reversal stores the former state as the baseline", want: set(setBaseline, "+a", "+b", setPin), stored: text(sized(2)), handled: sized(1),
			begin: func(t *testing.T) *reconcile { return begin(t, b, undone(t, b, pin(2, 1))) },
		},
		{
			name: "B-02 a reversal that finishes in one reconcile: the baseline was never replaced", want: set("-a", removePin), handled: sized(1),
			begin: func(t *testing.T) *reconcile { return begin(t, b, undone(t, b, pin(2, 1))).finish() },
		},
		{
			name: "B-02 a reversal that finishes in one reconcile: the baseline is not encoded again", want: set("-a", removePin), handled: sized(1),
			begin: func(t *testing.T) *reconcile {
				const formatted = `{"spec": {"size": 1.0}}`
				obj := undone(t, b, pin(2, 1))
				annotate(obj, baselineKey, formatted)
				b.Pin.Store(obj, mustEncode(pin(2, 1), formatted))
				return begin(t, b, obj).finish()
			},
		},
		{
			name: "B-13 a running creation of an object that a daemon has edited: no baseline", want: set("+a", "+b", setPin), handled: sized(2),
			begin: func(t *testing.T) *reconcile {
				return begin(t, b, object(sized(2)), func(in *cause.Input) {
					in.Edits = []cause.BackgroundEdit{{Base: sized(1), Patch: patch.MergePatch{"spec": m{"size": int64(2)}}}}
				})
			},
		},
		{
			name: "B-02 B-31 a reversal from a state of which only the digest is known", want: set(setDigest, "+a", "+b", setPin), handled: sized(1),
			stored: text(m{essence.DigestDocumentKey: essence.DigestOf(sized(2))}),
			begin: func(t *testing.T) *reconcile {
				p := pin(2, 1)
				p.Essence = nil
				return begin(t, b, undone(t, b, p))
			},
		},
		{
			name: "ESS-21 a restored baseline is stored again while the update is running", want: set(setBaseline, "+a", "+b", setPin), stored: text(sized(2)), handled: sized(1),
			begin: func(t *testing.T) *reconcile { return begin(t, b, handled(1, sized(1)), restored) },
		},
		{
			name: "ESS-21 an update after a restored baseline: the same baseline counts as stored", stored: text(sized(1)), handled: sized(1),
			begin: func(t *testing.T) *reconcile { return begin(t, b, handled(1, sized(1)), restored).finish() },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			tx := test.begin(t).build()
			equal(t, "changed annotations", keys(tx.Change.FrameworkPatch), test.want)
			equal(t, "stored baseline", string(tx.NewBaseline), test.stored)
			equal(t, "handled essence", tx.Handled, test.handled)
			equal(t, "changes of handlers", tx.Change.HandlerPatch, patch.MergePatch{})
			if tx.BaselineTooLarge || tx.Change.StatusLast || tx.Change.AddFinalizer != "" {
				t.Errorf("BaselineTooLarge = %t, StatusLast = %t, AddFinalizer = %q", tx.BaselineTooLarge, tx.Change.StatusLast, tx.Change.AddFinalizer)
			}
			if released := tx.Change.RemoveFinalizer == finalizer; released != test.release {
				t.Errorf("RemoveFinalizer = %q", tx.Change.RemoveFinalizer)
			}
		})
	}
}

// mustEncode returns the stored form of a pin.
func mustEncode(p cause.Pin, baseline string) []byte {
	out, err := p.Encode([]byte(baseline))
	if err != nil {
		panic(err)
	}
	return out
}

// undone returns an object whose change from size 1 was undone after handler a has seen it.
func undone(t *testing.T, b *commit.Builder, p cause.Pin) *unstructured.Unstructured {
	succeeded := progress.Record{Started: now.Add(-time.Minute), Stopped: now, Purpose: "update", Retries: 1, Success: true}
	obj := store(t, b, handled(1, sized(1)), map[string]progress.Record{"a": succeeded})
	b.Pin.Store(obj, mustEncode(p, text(sized(1))))
	return obj
}

// restored gives an object a history in which its baseline is an older one, and that of size 2 is the last one.
func restored(in *cause.Input) {
	last := []byte(text(sized(2)))
	in.History, in.Replaced = in.History.With(last, []byte(text(sized(1)))), last
}

// The next reconcile continues the cycle with the stored records and the pin.
func TestBuild_IsContinuedByNextReconcile(t *testing.T) {
	b := defaults()
	r := begin(t, b, handled(1, sized(2)))
	r.in.Progress.RecordOutcome("a", progress.Outcome{Err: errors.New("later"), Delay: time.Minute, Attempted: true}, now)
	obj := written(r.build().Change)
	equal(t, "PROG-03 record", recordOf(t, b, obj, "a"), progress.Record{
		Started: now, Attempted: now, Delayed: now.Add(time.Minute), Purpose: "update", Retries: 1, Message: "later",
	})
	equal(t, "PROG-13 record of a handler that was not called", recordOf(t, b, obj, "b"), progress.Record{Started: now, Purpose: "update"})
	equal(t, "B-01 pin", pinOf(t, obj), pin(2, 1))

	obj.Object["spec"] = sized(3)["spec"]
	r = begin(t, b, obj)
	equal(t, "B-01 handled state after an edit", r.cause.New, sized(2))
	obj = written(r.finish().build().Change)
	equal(t, "PROG-20 annotations at the end", obj.GetAnnotations(), map[string]string{baselineKey: text(sized(2)) + "\n"})

	r = begin(t, b, obj)
	equal(t, "B-01 the edit is the next update: old", r.cause.Old, sized(2))
	equal(t, "B-01 the edit is the next update: new", r.cause.New, sized(3))
}

// Changes of handlers are written with the state, and belong to the handled essence.
func TestBuild_MergesHandlerPatches(t *testing.T) {
	b := defaults()
	ownField := patch.MergePatch{"spec": m{"own": "x"}}
	with := func(size int) m { return m{"spec": m{"size": int64(size), "own": "x"}} }
	t.Run("B-13 a finished creation", func(t *testing.T) {
		tx := begin(t, b, object(sized(1))).finish().patched(ownField, patch.MergePatch{"status": m{"a": "done"}}).build()
		equal(t, "changes of handlers", tx.Change.HandlerPatch, patch.MergePatch{"spec": m{"own": "x"}, "status": m{"a": "done"}})
		equal(t, "changed annotations", keys(tx.Change.FrameworkPatch), set(setBaseline))
		equal(t, "handled essence", tx.Handled, with(1))
		equal(t, "stored baseline", string(tx.NewBaseline), text(with(1)))
		equal(t, "reason afterwards", begin(t, b, written(tx.Change)).cause.Reason, cause.Noop)
	})
	t.Run("B-13 a running update: the old state has the changes, too", func(t *testing.T) {
		tx := begin(t, b, handled(1, sized(2))).patched(ownField).build()
		equal(t, "changed annotations", keys(tx.Change.FrameworkPatch), set(setBaseline, "+a", "+b", setPin))
		equal(t, "stored baseline", string(tx.NewBaseline), text(with(1)))
		obj := written(tx.Change)
		equal(t, "digest of the pin", pinOf(t, obj).Digest, essence.DigestOf(with(2)))
		c := begin(t, b, obj).cause
		equal(t, "old", c.Old, with(1))
		equal(t, "new", c.New, with(2))
		equal(t, "StalePin", c.StalePin, false)
	})
	t.Run("B-13 a running creation has no baseline", func(t *testing.T) {
		tx := begin(t, b, object(sized(1))).patched(ownField).build()
		equal(t, "changed annotations", keys(tx.Change.FrameworkPatch), set("+a", "+b", setPin))
	})
	t.Run("B-13 a running deletion does not change the baseline", func(t *testing.T) {
		tx := begin(t, b, deleted(handled(1, sized(1)))).patched(ownField).build()
		equal(t, "changed annotations", keys(tx.Change.FrameworkPatch), set("+a", "+b"))
	})
	t.Run("B-13 a finished resumption", func(t *testing.T) {
		tx := begin(t, b, handled(1, sized(1)), initial).finish().patched(ownField).build()
		equal(t, "stored baseline", string(tx.NewBaseline), text(with(1)))
	})
	t.Run("B-13 handlers of an update restore the old state", func(t *testing.T) {
		tx := begin(t, b, handled(1, sized(2))).finish().patched(patch.MergePatch{"spec": m{"size": int64(1)}}).build()
		equal(t, "handled essence", tx.Handled, sized(1))
		equal(t, "changed annotations", keys(tx.Change.FrameworkPatch), set())
	})
	t.Run("B-13 handlers of an update restore the old state: the baseline is not encoded again", func(t *testing.T) {
		tx := begin(t, b, object(sized(2), baselineKey, `{"spec": {"size": 1.0}}`)).finish().patched(patch.MergePatch{"spec": m{"size": int64(1)}}).build()
		equal(t, "changed annotations", keys(tx.Change.FrameworkPatch), set())
	})
	t.Run("B-02 B-13 handlers of a reversal make the undone change again", func(t *testing.T) {
		tx := begin(t, b, undone(t, b, pin(2, 1))).finish().patched(patch.MergePatch{"spec": m{"size": int64(2)}}).build()
		equal(t, "stored baseline", string(tx.NewBaseline), text(sized(2)))
	})
	t.Run("B-13 handlers have changed the object earlier in the reconcile", func(t *testing.T) {
		r := begin(t, b, object(sized(1), baselineKey, `{"spec": {"size": 1}}`), initial).finish()
		r.in.Edited = true
		r.cause.Old = sized(2)
		equal(t, "stored baseline", string(r.build().NewBaseline), text(sized(1)))
	})
	t.Run("B-20 the last of several changes of a field wins", func(t *testing.T) {
		r := begin(t, b, object(sized(1))).patched(patch.MergePatch{"spec": m{"x": "1", "y": "1"}}, patch.MergePatch{"spec": m{"x": "2", "y": nil}})
		equal(t, "changes of handlers", r.build().Change.HandlerPatch, patch.MergePatch{"spec": m{"x": "2"}})
	})
	t.Run("PATCH-05 values that the object has are not written", func(t *testing.T) {
		r := begin(t, b, object(sized(1))).patched(patch.MergePatch{"spec": m{"size": int64(1), "absent": nil}})
		equal(t, "changes of handlers", r.build().Change.HandlerPatch, patch.MergePatch{})
	})
	t.Run("RES-01 a patch with fields that the Go type lacks", func(t *testing.T) {
		for _, untyped := range []bool{false, true} {
			r := begin(t, b, object(sized(1)))
			r.in.Patches = []*commit.HandlerPatch{{Patch: ownField, Untyped: untyped}, {Patch: ownField}}
			if got := r.build().Change.ReadUntyped; got != untyped {
				t.Errorf("ReadUntyped = %t, want %t", got, untyped)
			}
		}
	})
}

// A revert is applied before the changes of handlers. Fields that the API server may have stored are removed, even if the object lacks them.
func TestBuild_Reverts(t *testing.T) {
	r := begin(t, defaults(), object(m{"spec": m{"size": int64(1)}, "status": m{"phase": "New"}}))
	r.in.Revert = patch.MergePatch{"status": m{"phase": "Old", "note": nil, "result": nil}}
	r.patched(patch.MergePatch{"status": m{"result": "x"}})
	equal(t, "changes of handlers", r.build().Change.HandlerPatch, patch.MergePatch{"status": m{"phase": "Old", "note": nil, "result": "x"}})
}

// Records in the status must not be stored before the pin and the changes of handlers.
func TestBuild_RecordsInStatus(t *testing.T) {
	inStatus := newBuilder(progress.Status(""), progress.AnnotationBaseline(""))
	withoutStatus := newBuilder(progress.Status(""), progress.AnnotationBaseline(""))
	withoutStatus.HasStatus = false
	for _, test := range []struct {
		name    string
		builder *commit.Builder
		finish  bool
		want    bool
	}{
		{"PROG-07 running", inStatus, false, true},
		{"PROG-07 finished", inStatus, true, false},
		{"PROG-07 the kind has no status subresource", withoutStatus, false, false},
		{"PROG-05 records in annotations", defaults(), false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := begin(t, test.builder, store(t, test.builder, handled(1, sized(2)), map[string]progress.Record{"a": waiting("update")}))
			if test.finish {
				r.finish()
			}
			tx := r.build()
			if tx.Change.StatusLast != test.want {
				t.Errorf("StatusLast = %t, want %t", tx.Change.StatusLast, test.want)
			}
			next := begin(t, test.builder, written(tx.Change))
			if got := next.in.Progress.HasRecords("update"); got == test.finish {
				t.Errorf("HasRecords = %t after the write, want %t", got, !test.finish)
			}
		})
	}
}

func TestBuildPin(t *testing.T) {
	b := defaults()
	for _, test := range []struct {
		name string
		obj  *unstructured.Unstructured
		want cause.Pin
	}{
		{"B-01 creation", object(sized(1)), pin(1, 0)},
		{"B-01 update", handled(1, sized(2)), pin(2, 1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := begin(t, b, test.obj)
			change, err := b.BuildPin(r.obj, r.obj.Object, &r.cause)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "changed annotations", keys(change.FrameworkPatch), set(setPin))
			test.want.Ahead = true
			obj := written(change)
			equal(t, "pin", pinOf(t, obj), test.want)
			obj.Object["spec"] = sized(9)["spec"]
			equal(t, "handled state after an edit", begin(t, b, obj).cause.New, r.cause.New)
			if change.Before != r.in.Object || len(change.HandlerPatch) > 0 {
				t.Errorf("the change is for %v, with %v", change.Before, change.HandlerPatch)
			}
		})
	}
}

// After the API server has altered the changes of handlers, the baseline and the pin follow.
func TestBuildCorrection(t *testing.T) {
	b := defaults()
	altered := func(size int) m { return m{"spec": m{"size": int64(size), "own": "y"}} }
	for _, test := range []struct {
		name     string
		cause    cause.Cause
		finished bool
		want     map[string]bool
		stored   m
	}{
		{
			name: "B-13 a finished update", cause: cause.Cause{Reason: cause.Update, Old: altered(1), New: altered(2)}, finished: true,
			want: set(setBaseline), stored: altered(2),
		},
		{
			name: "B-13 a running update", cause: cause.Cause{Reason: cause.Update, Old: altered(1), New: altered(2)},
			want: set(setBaseline, setPin), stored: altered(1),
		},
		{name: "B-13 a running creation", cause: cause.Cause{Reason: cause.Create, New: altered(2)}, want: set(setPin)},
		{
			name: "B-13 a finished creation", cause: cause.Cause{Reason: cause.Create, New: altered(2)}, finished: true,
			want: set(setBaseline), stored: altered(2),
		},
		{name: "B-13 no cause", cause: cause.Cause{Reason: cause.Noop, Old: altered(2), New: altered(2)}, want: set(setBaseline), stored: altered(2)},
		{name: "B-13 no cause, the old state is not known", cause: cause.Cause{Reason: cause.Noop, New: altered(2)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := handled(7, altered(2))
			if test.cause.Reason == cause.Noop {
				b.Pin.Store(obj, []byte("{}")) // another write removes it
			}
			test.cause.Live = altered(2)
			tx, err := b.BuildCorrection(obj, obj.Object, &test.cause, test.finished)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "changed annotations", keys(tx.Change.FrameworkPatch), test.want)
			stored := ""
			if test.stored != nil {
				stored = text(test.stored)
			}
			equal(t, "stored baseline", string(tx.NewBaseline), stored)
			equal(t, "handled essence", tx.Handled, altered(2))
			if test.want[setPin] {
				equal(t, "digest of the pin", pinOf(t, written(tx.Change)).Digest, essence.DigestOf(altered(2)))
			}
		})
	}
}

// Kubernetes copies annotations between a Deployment and its ReplicaSets. The state of a ReplicaSet has keys of its own.
func TestBuild_MarksKeysOfReplicaSets(t *testing.T) {
	b := defaults()
	obj := object(sized(1))
	obj.SetKind("ReplicaSet")
	obj.Object["metadata"].(m)["ownerReferences"] = []any{m{"apiVersion": "apps/v1", "kind": "Deployment", "name": "w", "uid": "2"}}
	equal(t, "KEY-13 running", keys(begin(t, b, obj).build().Change.FrameworkPatch), set("+a-ofDRS", "+b-ofDRS", setPin+"-ofDRS"))
	equal(t, "KEY-13 finished", keys(begin(t, b, obj).finish().build().Change.FrameworkPatch), set(setBaseline+"-ofDRS"))
}

// failing is a store that cannot store and remove records.
type failing struct{ recordStore }

type recordStore = progress.Store

func (failing) Store(client.Object, string, progress.Record) error { return errors.New("no room") }
func (failing) Purge(client.Object, string) error                  { return errors.New("no room") }

func TestBuild_ReturnsErrors(t *testing.T) {
	b := defaults()
	withFailingStore := newBuilder(failing{progress.Smart()}, progress.AnnotationBaseline(""))
	noJSON := m{"spec": func() {}}
	for _, test := range []struct {
		name string
		run  func() error
		want string
	}{
		{"PROG-09 records cannot be stored", func() error {
			_, err := withFailingStore.Build(begin(t, withFailingStore, object(sized(1))).in)
			return err
		}, "recording progress: no room"},
		{"PROG-09 records cannot be removed", func() error {
			obj := store(t, b, handled(1, sized(2)), map[string]progress.Record{"a": waiting("update")})
			_, err := withFailingStore.Build(begin(t, withFailingStore, obj).finish().in)
			return err
		}, "recording progress: no room"},
		{"B-30 the essence of a finished cycle has no JSON form", func() error {
			r := begin(t, b, object(sized(1))).finish()
			r.cause.New = noJSON
			_, err := b.Build(r.in)
			return err
		}, "recording progress: the essence has no JSON form"},
		{"B-30 the essence of a running cycle has no JSON form", func() error {
			r := begin(t, b, object(sized(1)))
			r.cause.New = noJSON
			_, err := b.Build(r.in)
			return err
		}, "recording progress: "},
		{"B-30 the essence of a finished cycle that is corrected", func() error {
			obj := object(sized(1))
			_, err := b.BuildCorrection(obj, obj.Object, &cause.Cause{Reason: cause.Create, New: noJSON}, true)
			return err
		}, "no JSON form"},
		{"B-30 the old essence of a running cycle that is corrected", func() error {
			obj := object(sized(1))
			_, err := b.BuildCorrection(obj, obj.Object, &cause.Cause{Reason: cause.Update, Old: noJSON, New: sized(1)}, false)
			return err
		}, "no JSON form"},
		{"B-30 the essence of a running cycle that is corrected", func() error {
			obj := object(sized(1))
			_, err := b.BuildCorrection(obj, obj.Object, &cause.Cause{Reason: cause.Update, New: noJSON}, false)
			return err
		}, "func()"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := test.run(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
}

// The framework stores its state in the places that the operator has chosen.
func TestBuild_StoresStateElsewhere(t *testing.T) {
	for _, test := range []struct {
		name     string
		builder  *commit.Builder
		want     []string // fields of the framework's part
		finished []string
	}{
		{"PROG-07 records in the status", newBuilder(progress.Status(""), progress.AnnotationBaseline("")), []string{"metadata", "status"}, []string{"metadata"}},
		{"ESS-13 the baseline in the status", newBuilder(progress.Annotations(""), progress.StatusBaseline("")), []string{"metadata"}, []string{"status"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for finished, want := range map[bool][]string{false: test.want, true: test.finished} {
				r := begin(t, test.builder, object(sized(1)))
				if finished {
					r.finish()
				}
				tx := r.build()
				got := map[string]bool{}
				for field := range tx.Change.FrameworkPatch {
					got[field] = true
				}
				equal(t, fmt.Sprintf("fields, finished: %t", finished), got, set(want...))
				reason := cause.Create
				if finished {
					reason = cause.Noop
				}
				equal(t, fmt.Sprintf("reason afterwards, finished: %t", finished), begin(t, test.builder, written(tx.Change)).cause.Reason, reason)
			}
		})
	}
}
