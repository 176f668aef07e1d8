package progress_test

import (
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// waitOutcome is the outcome of a parent that waits for its sub-handlers.
func waitOutcome(delay time.Duration) progress.Outcome {
	return progress.Outcome{Waiting: true, Delay: delay, Attempted: true}
}

// adoptedState returns the state of a parent "p" with the given sub-handlers.
func adoptedState(t *testing.T, records map[string]progress.Record, ids ...string) *progress.State {
	t.Helper()
	obj := objectWith(t, records)
	state := newState(t, obj, "create", "p", "q")
	mustAdopt(t, state, records, "p", ids...)
	return state
}

func mustAdopt(t *testing.T, state *progress.State, records map[string]progress.Record, parent string, ids ...string) {
	t.Helper()
	if err := state.Adopt(store, objectWith(t, records), parent, ids, t0); err != nil {
		t.Fatalf("Adopt(%s): %v", parent, err)
	}
}

func TestAdopt_NewSubHandlers(t *testing.T) {
	state := adoptedState(t, nil, "p/b", "p/a")
	fresh := progress.Record{Started: t0, Purpose: "create"}
	equal(t, "SUB-07 record of a sub-handler", state.Record("p/a"), fresh)
	equal(t, "SUB-12 sub-handlers of the parent", slices.Sorted(slices.Values(state.Record("p").Subrefs)), []string{"p/a", "p/b"})
	equal(t, "sub-handlers of the other handler", len(state.Record("q").Subrefs), 0)
	equal(t, "SUB-07 due sub-handlers in the order of declaration", state.DueBelow("p", t0), []string{"p/b", "p/a"})
	equal(t, "SUB-10 due handlers", state.Due(t0), []string{"p", "q"})
	equal(t, "due sub-handlers of the other handler", len(state.DueBelow("q", t0)), 0)
	equal(t, "SUB-16 summary", state.Summary(), progress.Summary{Left: 2})
}

func TestAdopt_StoredSubHandlers(t *testing.T) {
	earlier := t0.Add(-time.Hour)
	for _, test := range []struct {
		name   string
		stored progress.Record
		want   progress.Record
		due    bool
	}{
		{
			name:   "SUB-07 a finished sub-handler",
			stored: progress.Record{Started: earlier, Stopped: earlier, Purpose: "create", Retries: 1, Success: true},
			want:   progress.Record{Started: earlier, Stopped: earlier, Purpose: "create", Retries: 1, Success: true},
		},
		{
			name:   "SUB-07 SUB-11 a permanently failed sub-handler",
			stored: progress.Record{Started: earlier, Stopped: earlier, Purpose: "create", Retries: 1, Failure: true, Message: "m"},
			want:   progress.Record{Started: earlier, Stopped: earlier, Purpose: "create", Retries: 1, Failure: true, Message: "m"},
		},
		{
			name:   "SUB-07 B-11 a delayed sub-handler keeps its delay and attempts",
			stored: progress.Record{Started: earlier, Delayed: t0.Add(time.Second), Purpose: "create", Retries: 2, Message: "m"},
			want:   progress.Record{Started: earlier, Delayed: t0.Add(time.Second), Purpose: "create", Retries: 2, Message: "m"},
		},
		{
			name:   "B-02 PROG-24 a success for another cause starts again",
			stored: progress.Record{Started: earlier, Stopped: earlier, Purpose: "update", Retries: 1, Success: true},
			want:   progress.Record{Started: t0, Purpose: "create"},
			due:    true,
		},
		{
			name:   "B-11 a delay of another cause is kept",
			stored: progress.Record{Started: earlier, Delayed: t0.Add(time.Second), Purpose: "update", Retries: 2, Message: "m"},
			want:   progress.Record{Started: earlier, Delayed: t0.Add(time.Second), Purpose: "create", Retries: 2, Message: "m"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			records := map[string]progress.Record{
				"p":   {Started: earlier, Purpose: test.stored.Purpose, Subrefs: []string{"p/a"}},
				"p/a": test.stored,
			}
			state := adoptedState(t, records, "p/a")
			equal(t, "record", state.Record("p/a"), test.want)
			equal(t, "due", len(state.DueBelow("p", t0)) == 1, test.due)
		})
	}
}

func TestAdopt_AnyDepth(t *testing.T) {
	state := adoptedState(t, nil, "p/a", "p/b")
	mustAdopt(t, state, nil, "p/a", "p/a/x")
	mustAdopt(t, state, nil, "p/a/x", "p/a/x/1", "p/a/x/2")
	all := []string{"p/a", "p/a/x", "p/a/x/1", "p/a/x/2", "p/b"}
	equal(t, "SUB-12 sub-handlers of the top-level handler", slices.Sorted(slices.Values(state.Record("p").Subrefs)), all)
	equal(t, "SUB-12 sub-handlers of the second level", slices.Sorted(slices.Values(state.Record("p/a").Subrefs)), all[1:4])
	equal(t, "SUB-12 sub-handlers of a handler without any", len(state.Record("p/b").Subrefs), 0)
	equal(t, "SUB-07 due sub-handlers on the lowest level", state.DueBelow("p/a/x", t0), []string{"p/a/x/1", "p/a/x/2"})
	equal(t, "SUB-07 due sub-handlers on the second level", state.DueBelow("p/a", t0), []string{"p/a/x"})
	equal(t, "SUB-16 summary", state.Summary(), progress.Summary{Left: 2})
}

func TestAdopt_KeepsOrderOfDeclaration(t *testing.T) {
	records := map[string]progress.Record{"p": {Started: t0, Purpose: "create", Subrefs: []string{"p/a", "p/b", "p/c"}}}
	for _, id := range []string{"p/a", "p/b", "p/c"} {
		records[id] = progress.Record{Started: t0, Purpose: "create"}
	}
	state := adoptedState(t, records, "p/c", "p/a", "p/b")
	equal(t, "SUB-07 due sub-handlers in a later reconcile", state.DueBelow("p", t0), []string{"p/c", "p/a", "p/b"})
}

// SUB-08: the delay of the parent is the shortest delay of its sub-handlers.
func TestDelayBelow(t *testing.T) {
	state := adoptedState(t, nil, "p/a", "p/b")
	for _, step := range []struct {
		name    string
		id      string
		outcome progress.Outcome
		want    time.Duration
		left    bool
	}{
		{"SUB-08 one delayed, one due", "p/a", again(time.Hour), 0, true},
		{"SUB-08 the shorter of two delays", "p/b", again(time.Minute), time.Minute, true},
		{"SUB-10 SUB-11 one failed", "p/b", failed, time.Hour, true},
		{"SUB-10 all finished", "p/a", succeeded, 0, false},
	} {
		state.RecordOutcome(step.id, step.outcome, t0)
		delay, left := state.DelayBelow("p", t0)
		equal(t, step.name, delay, step.want)
		equal(t, step.name+": left", left, step.left)
	}
	equal(t, "SUB-10 done before the parent has finished", state.Done(), false)
}

// B-24, SE-06: kopf counts each iteration as an attempt of the parent.
func TestRecordOutcome_WaitingIsNoAttempt(t *testing.T) {
	state := adoptedState(t, nil, "p/a")
	state.RecordOutcome("p", waitOutcome(time.Minute), t0)
	equal(t, "B-24 SUB-08 record of a waiting parent", state.Record("p"),
		progress.Record{Started: t0, Delayed: t0.Add(time.Minute), Attempted: t0, Purpose: "create", Subrefs: []string{"p/a"}})
	state.RecordOutcome("p", succeeded, t0)
	equal(t, "B-24 retries after its own attempt", state.Record("p").Retries, 1)
}

func TestRecord_WaitsForSubs(t *testing.T) {
	for _, test := range []struct {
		name   string
		record progress.Record
		want   bool
	}{
		{"B-24 a parent with sub-handlers waits", progress.Record{Started: t0, Delayed: t0, Subrefs: []string{"p/a"}}, true},
		{"B-24 a parent in its backoff does not wait", progress.Record{Started: t0, Delayed: t0, Subrefs: []string{"p/a"}, Retries: 1, Message: "m"}, false},
		{"B-24 a parent without attempts does not wait", progress.Record{Started: t0, Subrefs: []string{"p/a"}}, false},
		{"B-24 a handler without sub-handlers does not wait", progress.Record{Started: t0, Delayed: t0}, false},
		{"B-24 a finished parent does not wait", progress.Record{Started: t0, Delayed: t0, Subrefs: []string{"p/a"}, Success: true}, false},
	} {
		t.Run(test.name, func(t *testing.T) { equal(t, "waits", test.record.WaitsForSubs(), test.want) })
	}
}

// 0005: the API server may reject a change of a sub-handler after its parents have succeeded.
func TestWaitAgain(t *testing.T) {
	state := adoptedState(t, nil, "p/a", "p/b")
	mustAdopt(t, state, nil, "p/a", "p/a/x")
	before := state.Record("p/a/x")
	for _, id := range []string{"p/a/x", "p/a", "p/b", "p"} {
		state.RecordOutcome(id, succeeded, t0)
	}
	state.WaitAgain("p/a/x")
	equal(t, "SUB-10 success of the finished parent", state.Record("p").Success, true)
	state.SetRecord("p/a/x", before)
	state.RecordOutcome("p/a/x", again(time.Minute), t0)
	state.WaitAgain("p/a/x")
	for _, id := range []string{"p", "p/a"} {
		record := state.Record(id)
		equal(t, "SUB-10 B-24 record of the waiting parent "+id, record, progress.Record{
			Started: t0, Delayed: t0.Add(time.Minute), Attempted: t0, Purpose: "create", Subrefs: record.Subrefs,
		})
	}
	equal(t, "SUB-10 success of the other sub-handler", state.Record("p/b").Success, true)
	state.WaitAgain("x") // unknown id
	state.WaitAgain("q") // not a parent
}

func TestSaveAndPurge_SubHandlers(t *testing.T) {
	earlier := map[string]progress.Record{
		"p":       {Started: t0, Purpose: "create", Subrefs: []string{"p/a", "p/old", "p/old/x"}},
		"p/a":     {Started: t0, Stopped: t0, Purpose: "create", Retries: 1, Success: true},
		"p/old":   {Started: t0, Purpose: "create", Retries: 1, Subrefs: []string{"p/old/x"}},
		"p/old/x": {Started: t0, Purpose: "create", Retries: 1},
		"other":   {Started: t0, Purpose: "create"},
	}
	obj := objectWith(t, earlier)
	state := loadState(t, obj, "p", "q")
	state.Begin("create", []string{"p", "q"}, t0)
	if err := state.Adopt(store, obj, "p", []string{"p/a", "p/new"}, t0); err != nil {
		t.Fatal(err)
	}
	equal(t, "SUB-12 all sub-handlers ever declared", slices.Sorted(slices.Values(state.Record("p").Subrefs)),
		[]string{"p/a", "p/new", "p/old", "p/old/x"})
	equal(t, "SUB-10 due sub-handlers among the declared ones", state.DueBelow("p", t0), []string{"p/new"})
	if err := state.Save(store, obj); err != nil {
		t.Fatal(err)
	}
	equal(t, "SUB-13 records during the cycle", namesOf(obj, kopfPrefix),
		[]string{"other", "p", "p.a", "p.new", "p.old", "p.old.x", "q"})
	equal(t, "SUB-12 [wire] sub-references", mustFetch(t, store, obj, "p").Subrefs, []string{"p/a", "p/new", "p/old", "p/old/x"})
	if err := state.Purge(store, obj); err != nil {
		t.Fatal(err)
	}
	equal(t, "PROG-20 SUB-12 remaining records", namesOf(obj, kopfPrefix), []string{"other"})
}

func TestAdopt_UnreadableRecords(t *testing.T) {
	obj := configMap(kopfPrefix+"/p.a", `{"retries":`)
	state := newState(t, obj, "create", "p")
	if err := state.Adopt(store, obj, "p", []string{"p/a"}, t0); err == nil {
		t.Error("B-30: got no error for the unreadable record")
	}
	equal(t, "B-30 new record", state.Record("p/a"), progress.Record{Started: t0, Purpose: "create"})
}

// If an update is reverted, handlers with attempts keep their records and waiting handlers keep waiting. A success
// counts only for calls that were made.
func TestPurgeStale_SubHandlers(t *testing.T) {
	done := progress.Record{Started: t0, Stopped: t0, Purpose: "update", Retries: 1, Success: true}
	late := func(delay time.Duration) progress.Record {
		return progress.Record{Started: t0, Delayed: t0.Add(delay), Purpose: "update", Retries: 1, Message: "m"}
	}
	parent := func(delay time.Duration) progress.Record {
		return progress.Record{Started: t0, Delayed: t0.Add(delay), Purpose: "update", Subrefs: []string{"p/a", "p/b"}}
	}
	for _, test := range []struct {
		name    string
		records map[string]progress.Record
		acted   bool
		left    time.Duration
		kept    []string
	}{
		{"B-02 a sub-handler was called", map[string]progress.Record{"p": parent(time.Minute), "p/a": done, "p/b": late(time.Minute)}, true, time.Minute, []string{"p", "p.b"}},
		{"B-01 B-11 all sub-handlers were called; the longest delay is kept", map[string]progress.Record{"p": parent(-time.Second), "p/a": late(-time.Second), "p/b": late(time.Hour)}, true, time.Hour, []string{"p", "p.b"}},
		{"B-02 all delays have expired", map[string]progress.Record{"p": parent(-time.Second), "p/a": done, "p/b": late(-time.Second)}, true, 0, nil},
		{"B-02 the parent has failed", map[string]progress.Record{"p": {Started: t0, Purpose: "update", Retries: 1, Failure: true, Subrefs: []string{"p/b"}}, "p/b": late(time.Hour)}, true, 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := objectWith(t, test.records)
			state := loadState(t, obj, "p")
			equal(t, "started", state.HasRecords("update"), true)
			equal(t, "HasRecords for another cause", state.HasRecords("create"), false)
			equal(t, "HasAttempts", state.HasAttempts("update"), test.acted)
			equal(t, "HasAttempts for another cause", state.HasAttempts("create"), false)
			if err := state.PurgeStale(store, obj, t0); err != nil {
				t.Fatal(err)
			}
			equal(t, "remaining records", namesOf(obj, kopfPrefix), test.kept)
			rest := loadState(t, obj, "p")
			delay, left := rest.StaleAfter(t0)
			equal(t, "remaining delay", delay, test.left)
			equal(t, "has a remaining delay", left, test.left > 0)
			equal(t, "HasStale after PurgeStale", rest.HasStale(t0), false)
			equal(t, "HasStale after the delay", rest.HasStale(t0.Add(test.left)), len(test.kept) > 0)
		})
	}
}

func TestHasFinished(t *testing.T) {
	obj := objectWith(t, map[string]progress.Record{
		"p":   {Started: t0, Purpose: "create", Subrefs: []string{"p/a", "p/b", "p/c", "p/d"}},
		"p/a": {Started: t0, Purpose: "create", Retries: 1, Success: true},
		"p/b": {Started: t0, Purpose: "update", Retries: 1, Success: true}, // for another cause
		"p/c": {Started: t0, Purpose: "create", Retries: 1},
		"p/d": {Started: t0, Retries: 1, Failure: true}, // from an old version of kopf
	})
	state := newState(t, obj, "create", "p")
	for id, want := range map[string]bool{"p": false, "p/a": true, "p/b": false, "p/c": false, "p/d": true, "p/unknown": false} {
		equal(t, "finished: "+id, state.HasFinished(id), want)
	}
}

func TestAbandon(t *testing.T) {
	obj := objectWith(t, map[string]progress.Record{
		"p":       {Started: t0, Purpose: "create", Subrefs: []string{"p/a", "p/old", "p/old/x", "p/update", "p/purged"}},
		"p/a":     {Started: t0, Stopped: t0, Purpose: "create", Retries: 1, Success: true},
		"p/old":   {Started: t0, Purpose: "create", Subrefs: []string{"p/old/x"}, Delayed: t0.Add(time.Hour)},
		"p/old/x": {Started: t0, Purpose: "create", Retries: 3, Message: "busy", Delayed: t0.Add(time.Hour)},
		// It was not declared for this cause.
		"p/update": {Started: t0, Purpose: "update", Retries: 3, Delayed: t0.Add(time.Hour)},
	})
	state := newState(t, obj, "create", "p")
	equal(t, "unfinished sub-handlers", state.UnfinishedBelow("p"), []string{"p/old", "p/old/x"})
	equal(t, "unfinished sub-handlers of a sub-handler", state.UnfinishedBelow("p/old"), []string{"p/old/x"})
	equal(t, "unfinished sub-handlers of an unknown handler", len(state.UnfinishedBelow("unknown")), 0)
	state.Abandon([]string{"p/old", "p/old/x", "unknown"}, errBoom, t0.Add(time.Minute))
	equal(t, "unfinished sub-handlers afterwards", len(state.UnfinishedBelow("p")), 0)
	if err := state.Save(store, obj); err != nil {
		t.Fatal(err)
	}
	equal(t, "[wire] waiting sub-handler", *mustFetch(t, store, obj, "p/old"),
		progress.Record{Started: t0, Stopped: t0.Add(time.Minute), Purpose: "create", Failure: true, Message: errBoom.Error(), Subrefs: []string{"p/old/x"}})
	equal(t, "[wire] failing sub-handler", *mustFetch(t, store, obj, "p/old/x"),
		progress.Record{Started: t0, Stopped: t0.Add(time.Minute), Purpose: "create", Retries: 3, Failure: true, Message: errBoom.Error() + "; the last error: busy"})
	if err := state.Purge(store, obj); err != nil {
		t.Fatal(err)
	}
	equal(t, "remaining records", len(namesOf(obj, kopfPrefix)), 0)
}

// Another cause neither calls a kept handler nor removes its records or its sub-handlers'.
func TestKeep(t *testing.T) {
	records := map[string]progress.Record{
		"p":     {Started: t0, Delayed: t0.Add(-time.Second), Purpose: "noop", Subrefs: []string{"p/a", "p/b"}},
		"p/a":   {Started: t0, Stopped: t0, Purpose: "noop", Retries: 1, Success: true},
		"p/b":   {Started: t0, Delayed: t0.Add(-time.Second), Purpose: "noop", Retries: 1, Message: "m"},
		"other": {Started: t0, Delayed: t0.Add(-time.Second), Purpose: "noop", Retries: 1},
	}
	for name, write := range map[string]func(*progress.State, client.Object) error{
		"Save":       func(s *progress.State, obj client.Object) error { return s.Save(store, obj) },
		"Purge":      func(s *progress.State, obj client.Object) error { return s.Purge(store, obj) },
		"PurgeStale": func(s *progress.State, obj client.Object) error { return s.PurgeStale(store, obj, t0) },
	} {
		t.Run(name, func(t *testing.T) {
			obj := objectWith(t, records)
			state := loadState(t, obj, "p", "other", "q")
			state.Keep("p")
			superseded := state.Begin("resume", []string{"q"}, t0)
			equal(t, "superseded", superseded, map[string]progress.Summary{"noop": {Left: 1}})
			if err := write(state, obj); err != nil {
				t.Fatal(err)
			}
			want := []string{"p", "p.a", "p.b"}
			if name == "Save" {
				want = append(want, "q")
			}
			equal(t, "records", namesOf(obj, kopfPrefix), want)
			rest := loadState(t, obj, "p")
			rest.Keep("p")
			equal(t, "HasStale", rest.HasStale(t0), false)

			rest.Begin("noop", []string{"p"}, t0) // the handler itself is not kept from finishing
			rest.RecordOutcome("p", progress.Outcome{Attempted: true, Final: true, Success: true}, t0)
			if err := rest.Purge(store, obj); err != nil {
				t.Fatal(err)
			}
			equal(t, "number of records in the end", len(namesOf(obj, kopfPrefix)), len(want)-3)
		})
	}
}
