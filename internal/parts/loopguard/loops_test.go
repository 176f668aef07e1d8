package loopguard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/loopguard"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// writeOf returns a write of the field spec.x.
func writeOf(handler string, value int, versions ...string) loopguard.Write {
	return loopguard.Write{Handler: handler, Fields: patch.MergePatch{"spec": m{"x": value}}, Paths: []string{"spec.x"}, Versions: versions}
}

// changeTo returns a change of the field spec.x.
func changeTo(value int) diff.Diff { return diff.Of(m{"spec": m{"x": 0}}, m{"spec": m{"x": value}}) }

// looping returns the state in which the second update of a handler waits. The limit is 1.
func looping(t *testing.T) *loopguard.Loops {
	t.Helper()
	loops := (*loopguard.Loops)(nil).Add(writeOf("a", 1, "1"))
	loops.StartUpdate(start, changeTo(1), 1)
	if wait := loops.StartUpdate(start, changeTo(1), 1); wait != time.Second || !loops.IsLooping() {
		t.Fatalf("the second update waits %v, want a second", wait)
	}
	return loops
}

func TestLoops_Nil(t *testing.T) {
	var loops *loopguard.Loops
	if loops = loops.Add(loopguard.Write{Handler: "a"}); loops != nil {
		t.Errorf("a write without a version was recorded: %+v", loops)
	}
	if loops.IsLooping() || !loops.Held().IsZero() {
		t.Errorf("looping %v, held until %v, want neither", loops.IsLooping(), loops.Held())
	}
}

func TestLoops_StartUpdate(t *testing.T) {
	const s = time.Second
	type step struct {
		writes []loopguard.Write
		change diff.Diff
		wait   time.Duration
	}
	own := func(value int, wait time.Duration) step {
		return step{[]loopguard.Write{writeOf("a", value, "1")}, changeTo(value), wait}
	}
	others := func(value int) step { return step{nil, changeTo(value), 0} }
	for _, test := range []struct {
		name    string
		steps   []step // one after the other at the same time
		changes string
	}{
		{"a change by another client", []step{own(1, 0), others(2)}, `"a" changes spec.x`},
		{"up to the limit", []step{own(1, 0), own(2, 0)}, `"a" changes spec.x`},
		{"above the limit", []step{own(1, 0), own(2, 0), own(3, s)}, `"a" changes spec.x`},
		{"a change by another client begins a new count", []step{own(1, 0), own(2, 0), others(3), own(4, 0), own(5, 0), own(6, s)}, `"a" changes spec.x`},
		{"the handlers of an earlier chain are not named", []step{own(1, 0), others(2), {[]loopguard.Write{writeOf("b", 3, "3")}, changeTo(3), 0}}, `"b" changes spec.x`},
		{"two handlers", []step{own(1, 0), {[]loopguard.Write{writeOf("b", 2, "2")}, changeTo(2), 0}, own(3, s)}, `"a" changes spec.x, "b" changes spec.x`},
		{"a condition that the engine reports", []step{{
			[]loopguard.Write{{Handler: loopguard.ReportedByEngine, Fields: patch.MergePatch{essence.ConditionsKey: m{"Ready": "True"}}, Versions: []string{"1"}}},
			diff.Of(m{}, m{essence.ConditionsKey: m{"Ready": "True"}}), 0,
		}}, "a reported condition changes status.conditions.Ready"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var loops *loopguard.Loops
			for i, step := range test.steps {
				for _, write := range step.writes {
					loops = loops.Add(write)
				}
				if wait := loops.StartUpdate(start, step.change, 2); wait != step.wait {
					t.Errorf("step %d: wait %v, want %v", i, wait, step.wait)
				}
			}
			if got := strings.Join(loops.Changes(), ", "); got != test.changes {
				t.Errorf("changes %s, want %s", got, test.changes)
			}
		})
	}
}

// A report names at most ten changes.
func TestLoops_ChangesAreLimited(t *testing.T) {
	fields := m{}
	for i := range 20 {
		fields[fmt.Sprintf("f%02d", i)] = i
	}
	loops := (*loopguard.Loops)(nil).Add(loopguard.Write{Handler: "a", Fields: fields, Versions: []string{"1"}})
	loops.StartUpdate(start, diff.Of(m{}, fields), 1)
	if changes := loops.Changes(); len(changes) != 10 || changes[9] != `"a" changes f09` {
		t.Errorf("changes %v, want those of the first ten fields", changes)
	}
}

func TestLoops_StartReconcile(t *testing.T) {
	for _, test := range []struct {
		name     string
		versions [][]string // of the changes before each call
		wait     time.Duration
		changes  string
	}{
		{"no change", [][]string{nil, nil, nil, nil}, 0, ""},
		{"a change by another client", [][]string{{"9"}, {"9"}, {"9"}}, 0, ""},
		{"up to the limit", [][]string{{"1"}, {"1"}}, 0, `"a" changes spec.x`},
		{"above the limit", [][]string{{"1"}, {"2"}, {"1", "3"}}, time.Second, `"a" changes spec.x, "b" changes spec.x`},
		{"handlers and another client", [][]string{{"1"}, {"1"}, {"1", "9"}}, 0, `"a" changes spec.x`},
		{"no further change while the handlers wait", [][]string{{"1"}, {"1"}, {"1"}, nil}, time.Second, `"a" changes spec.x`},
		{"a change by another client while the handlers wait", [][]string{{"1"}, {"1"}, {"1"}, {"9"}}, 0, `"a" changes spec.x`},
	} {
		t.Run(test.name, func(t *testing.T) {
			loops := (*loopguard.Loops)(nil).Add(writeOf("a", 1, "1")).Add(writeOf("b", 1, "3")).Add(writeOf("a", 2, "2"))
			var wait time.Duration
			for _, versions := range test.versions {
				wait = loops.StartReconcile(start, versions, nil, 2)
			}
			if got := strings.Join(loops.Changes(), ", "); wait != test.wait || got != test.changes {
				t.Errorf("wait %v, changes %s, want %v, %s", wait, got, test.wait, test.changes)
			}
			if held := loops.Held(); held.IsZero() != (wait == 0) || wait > 0 && !held.Equal(start.Add(wait)) {
				t.Errorf("held until %v, want a wait of %v", held, wait)
			}
		})
	}
}

// A failing handler may write the object with a client of its own. Related objects are no such writes.
func TestLoops_StartReconcile_OfFailingHandlers(t *testing.T) {
	for _, test := range []struct {
		name              string
		versions, failing []string
		wait              time.Duration
		changes           string
	}{
		{"the object changes after each failure", []string{"9"}, []string{"a"}, time.Second, `"a" fails, and the object changes after each attempt`},
		{"a related object changes", []string{objectstate.RelatedChange}, []string{"a"}, 0, ""},
		{"both change", []string{"9", objectstate.RelatedChange}, []string{"a"}, 0, ""},
		{"no handler fails", []string{"9"}, nil, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			loops, wait := &loopguard.Loops{}, time.Duration(0)
			for range 3 {
				wait = loops.StartReconcile(start, test.versions, test.failing, 2)
			}
			if got := strings.Join(loops.Changes(), ", "); wait != test.wait || got != test.changes {
				t.Errorf("wait %v, changes %s, want %v, %s", wait, got, test.wait, test.changes)
			}
		})
	}
}

func TestLoops_HasWritten(t *testing.T) {
	loops := (*loopguard.Loops)(nil).Add(writeOf("a", 1, "1", "2")).Add(writeOf("b", 1, "3"))
	for id, versions := range map[string]string{"a": "12", "b": "3", "c": ""} {
		for _, version := range []string{"1", "2", "3"} {
			if got, want := loops.HasWritten(id, version), strings.Contains(versions, version); got != want {
				t.Errorf("HasWritten(%q, %q) = %t, want %t", id, version, got, want)
			}
		}
	}
	if (*loopguard.Loops)(nil).HasWritten("a", "1") {
		t.Error("without writes, HasWritten = true")
	}
}

func TestLoops_StartReconcile_AfterTheDelay(t *testing.T) {
	loops := (*loopguard.Loops)(nil).Add(writeOf("a", 1, "1"))
	loops.StartReconcile(start, []string{"1"}, nil, 1)
	wait := loops.StartReconcile(start, []string{"1"}, nil, 1)
	if left := loops.StartReconcile(start.Add(wait), nil, nil, 1); wait != time.Second || left != 0 {
		t.Errorf("wait %v, and %v after that, want a second and 0", wait, left)
	}
}

// An update and a call of a reconcile handler wait.
func TestLoops_Held(t *testing.T) {
	loops := looping(t)
	loops.StartReconcile(start.Add(-time.Second/2), []string{"1"}, nil, 1)
	loops.StartReconcile(start.Add(-time.Second/2), []string{"1"}, nil, 1)
	if held, want := loops.Held(), start.Add(time.Second/2); !held.Equal(want) {
		t.Errorf("held until %v, want %v", held, want)
	}
	if next, _ := loops.Expire(start); next != time.Second/2 {
		t.Errorf("expire again after %v, want half a second", next)
	}
}

func TestLoops_SkipUpdate(t *testing.T) {
	loops := looping(t)
	if loops.SkipUpdate(start); loops.Held().IsZero() {
		t.Error("before its time, the update was dropped")
	}
	if loops.SkipUpdate(start.Add(time.Second)); !loops.Held().IsZero() {
		t.Errorf("after its time, an update is held until %v", loops.Held())
	}
}

func TestLoops_DropHandled(t *testing.T) {
	write := func(versions ...string) *loopguard.Loops {
		return (*loopguard.Loops)(nil).Add(writeOf("a", 1, versions...))
	}
	held := write("3")
	held.StartReconcile(start, []string{"3"}, nil, 1)
	held.StartReconcile(start, []string{"3"}, nil, 1)
	for _, test := range []struct {
		name    string
		loops   *loopguard.Loops
		version string
		dropped bool
	}{
		{"an older write", write("3"), "4", true},
		{"a write of this version", write("3"), "3", true},
		{"a newer write", write("3"), "2", false},
		{"an older and a newer write of a handler", write("1", "3"), "2", false},
		{"the reconcile handlers wait", held, "4", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.loops.DropHandled(test.version)
			// With the limit 0, each update waits whose changes handlers have made.
			if wait := test.loops.StartUpdate(start, changeTo(1), 0); wait > 0 == test.dropped {
				t.Errorf("wait %v, want dropped %v", wait, test.dropped)
			}
		})
	}
}

func TestLoops_Expire(t *testing.T) {
	released := looping(t)
	released.StartUpdate(start.Add(time.Second), changeTo(1), 1)
	counted := (*loopguard.Loops)(nil).Add(writeOf("a", 1, "1"))
	counted.StartUpdate(start, changeTo(1), 1)
	counted.DropHandled("1")
	for _, test := range []struct {
		name  string
		loops *loopguard.Loops
		after time.Duration
		next  time.Duration
		ended bool
	}{
		{"nothing is counted", (*loopguard.Loops)(nil).Add(writeOf("a", 1, "1")), 0, 0, false},
		{"a counted update", counted, time.Second, 0, false},
		{"a counted update after the window", counted, loopguard.Window, 0, false},
		{"an update waits", looping(t), time.Second / 4, time.Second * 3 / 4, false},
		{"a loop", released, time.Second, loopguard.Window, false},
		{"a loop after the window", released, loopguard.Window + time.Second, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			next, ended := test.loops.Expire(start.Add(test.after))
			if next != test.next || ended != test.ended || ended && test.loops.IsLooping() {
				t.Errorf("next %v, ended %v, want %v, %v", next, ended, test.next, test.ended)
			}
		})
	}
	if !counted.IsEmpty() || len(released.Changes()) > 0 {
		t.Errorf("after the window: empty %v, changes %v, want an empty state and no changes", counted.IsEmpty(), released.Changes())
	}
}

func TestLoops_IsEmpty(t *testing.T) {
	loops := (*loopguard.Loops)(nil).Add(writeOf("a", 1, "1"))
	if loops.IsEmpty() {
		t.Error("with a write, the state is empty")
	}
	if loops.DropHandled("1"); !loops.IsEmpty() {
		t.Error("without a write, the state is not empty")
	}
	loops = looping(t)
	if loops.DropHandled("1"); loops.IsEmpty() {
		t.Error("during a loop, the state is empty")
	}
}

// Each loop is reported once.
func TestLoops_TakeReport(t *testing.T) {
	loops := (*loopguard.Loops)(nil).Add(writeOf("a", 1, "1"))
	var reports []bool
	at := start
	for range 2 {
		reports = append(reports, loops.TakeReport())
		loops.StartUpdate(at, changeTo(1), 1)
		loops.StartUpdate(at, changeTo(1), 1)
		reports = append(reports, loops.TakeReport(), loops.TakeReport())
		loops.StartUpdate(at.Add(time.Second), changeTo(1), 1)
		at = at.Add(2 * loopguard.Window)
		loops.Expire(at)
	}
	if want := []bool{false, true, false, false, true, false}; !slices.Equal(reports, want) {
		t.Errorf("reports %v, want %v", reports, want)
	}
}
