package progress_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

var store = progress.Annotations("")

// begun returns the state of an object after Begin at t0 with all of its handlers.
func begun(t *testing.T, obj client.Object, purpose string, ids ...string) *progress.State {
	t.Helper()
	state := loaded(t, obj, ids...)
	state.Begin(purpose, ids, t0)
	return state
}

func loaded(t *testing.T, obj client.Object, ids ...string) *progress.State {
	t.Helper()
	state, err := progress.Load(store, obj, ids)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return state
}

// holding returns an object with the given records.
func holding(t *testing.T, records map[string]progress.Record) client.Object {
	t.Helper()
	obj := configMap()
	for id, record := range records {
		mustStore(t, store, obj, id, record)
	}
	return obj
}

var (
	again = func(delay time.Duration) progress.Outcome {
		return progress.Outcome{Err: errBoom, Delay: delay, Attempted: true}
	}
	succeeded = progress.Outcome{Final: true, Success: true, Attempted: true}
	failed    = progress.Outcome{Err: errBoom, Final: true, Attempted: true}
)

func TestState_FreshCause(t *testing.T) {
	state := loaded(t, configMap(), "a", "b", "c")
	if superseded := state.Begin("create", []string{"a", "c"}, t0); len(superseded) > 0 {
		t.Errorf("PROG-22: superseded %v, want nothing", superseded)
	}
	fresh := progress.Record{Started: t0, Purpose: "create"}
	equal(t, "PROG-12 the record of a selected one", state.Record("a"), fresh)
	equal(t, "PROG-12 the record of the other selected one", state.Record("c"), fresh)
	equal(t, "PROG-12 the record of one not selected", state.Record("b"), progress.Record{})
	equal(t, "the record of a stranger", state.Record("x"), progress.Record{})
	equal(t, "PROG-15 HND-10 due, in the order of registration", state.Due(t0), []string{"a", "c"})
	equal(t, "PROG-19 done", state.Done(), false)
	equal(t, "PROG-10 stored", state.HasStale(ever), false)
	equal(t, "PROG-22 summary", state.Summary(), progress.Summary{Left: 2})
}

func TestState_NoHandlers(t *testing.T) {
	state := begun(t, configMap(), "create")
	equal(t, "PROG-19 nothing selected is done", state.Done(), true)
	if delay, left := state.Delay(t0); left || delay != 0 {
		t.Errorf("DLY-01: delay = %s, %t, want none", delay, left)
	}
	equal(t, "due", len(state.Due(t0)), 0)
}

func TestState_ContinuesCause(t *testing.T) {
	earlier := t0.Add(-time.Hour)
	for _, test := range []struct {
		name   string
		stored progress.Record
		want   progress.Record
		due    bool
	}{
		{
			name:   "PROG-29 a finished one is not called again",
			stored: progress.Record{Started: earlier, Stopped: earlier, Purpose: "update", Retries: 1, Success: true},
			want:   progress.Record{Started: earlier, Stopped: earlier, Purpose: "update", Retries: 1, Success: true},
		},
		{
			name:   "PROG-27 PROG-29 one that failed permanently is not called again",
			stored: progress.Record{Started: earlier, Stopped: earlier, Purpose: "update", Retries: 3, Failure: true, Message: "m"},
			want:   progress.Record{Started: earlier, Stopped: earlier, Purpose: "update", Retries: 3, Failure: true, Message: "m"},
		},
		{
			name:   "PROG-29 DLY-13 a delayed one keeps its delay and its attempts",
			stored: progress.Record{Started: earlier, Delayed: t0.Add(time.Second), Purpose: "update", Retries: 2, Message: "m"},
			want:   progress.Record{Started: earlier, Delayed: t0.Add(time.Second), Purpose: "update", Retries: 2, Message: "m"},
		},
		{
			name:   "PROG-29 DLY-13 one whose time has come is due",
			stored: progress.Record{Started: earlier, Delayed: t0, Purpose: "update", Retries: 2},
			want:   progress.Record{Started: earlier, Delayed: t0, Purpose: "update", Retries: 2},
			due:    true,
		},
		{
			name:   "PROG-29 an interrupted one is called again",
			stored: progress.Record{Started: earlier, Purpose: "update"},
			want:   progress.Record{Started: earlier, Purpose: "update"},
			due:    true,
		},
		{
			name:   "PROG-25 without a purpose, it belongs to any",
			stored: progress.Record{Started: earlier, Retries: 4},
			want:   progress.Record{Started: earlier, Purpose: "update", Retries: 4},
			due:    true,
		},
		{
			name:   "PROG-25 without a purpose, also when finished",
			stored: progress.Record{Started: earlier, Retries: 4, Success: true},
			want:   progress.Record{Started: earlier, Purpose: "update", Retries: 4, Success: true},
		},
		{
			name:   "PROG-12 PROG-14 without a start, it starts now",
			stored: progress.Record{Retries: 4, Purpose: "update"},
			want:   progress.Record{Started: t0, Purpose: "update", Retries: 4},
			due:    true,
		},
		{
			name:   "SUB-12 sub-handlers are remembered",
			stored: progress.Record{Started: earlier, Purpose: "update", Subrefs: []string{"a/x"}},
			want:   progress.Record{Started: earlier, Purpose: "update", Subrefs: []string{"a/x"}},
			due:    true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			state := loaded(t, holding(t, map[string]progress.Record{"a": test.stored}), "a")
			if superseded := state.Begin("update", []string{"a"}, t0); len(superseded) > 0 {
				t.Errorf("PROG-22 PROG-25: superseded %v, want nothing", superseded)
			}
			equal(t, "record", state.Record("a"), test.want)
			equal(t, "due", len(state.Due(t0)) == 1, test.due)
			equal(t, "PROG-10 stored", state.HasStale(ever), true)
		})
	}
}

func TestRecordOutcome(t *testing.T) {
	started := t0.Add(-time.Hour)
	begin := progress.Record{Started: started, Delayed: t0, Purpose: "create", Retries: 2, Message: "before", Subrefs: []string{"a/x"}}
	for _, test := range []struct {
		name    string
		outcome progress.Outcome
		want    progress.Record
	}{
		{
			name:    "PROG-16 PROG-18 success",
			outcome: succeeded,
			want:    progress.Record{Started: started, Stopped: t0, Purpose: "create", Retries: 3, Success: true, Subrefs: []string{"a/x"}},
		},
		{
			name:    "PROG-16 PROG-18 final failure",
			outcome: failed,
			want:    progress.Record{Started: started, Stopped: t0, Purpose: "create", Retries: 3, Failure: true, Message: "boom", Subrefs: []string{"a/x"}},
		},
		{
			name:    "PROG-16 PROG-17 again, later",
			outcome: again(time.Minute),
			want:    progress.Record{Started: started, Delayed: t0.Add(time.Minute), Attempted: t0, Purpose: "create", Retries: 3, Message: "boom", Subrefs: []string{"a/x"}},
		},
		{
			name:    "PROG-17 again, immediately",
			outcome: again(0),
			want:    progress.Record{Started: started, Delayed: t0, Attempted: t0, Purpose: "create", Retries: 3, Message: "boom", Subrefs: []string{"a/x"}},
		},
		{
			name:    "PROG-18 ERR an ignored error leaves no message",
			outcome: progress.Outcome{Err: errBoom, Final: true, Success: true, Attempted: true},
			want:    progress.Record{Started: started, Stopped: t0, Purpose: "create", Retries: 3, Success: true, Subrefs: []string{"a/x"}},
		},
		{
			name:    "ERR-02 ERR-03 given up without a call, which is no attempt",
			outcome: progress.Outcome{Err: errBoom, Final: true},
			want:    progress.Record{Started: started, Stopped: t0, Purpose: "create", Retries: 2, Failure: true, Message: "boom", Subrefs: []string{"a/x"}},
		},
		{
			name:    "PROG-29 interrupted: nothing has happened",
			outcome: progress.Outcome{Err: errBoom, Interrupted: true},
			want:    begin,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			state := begun(t, holding(t, map[string]progress.Record{"a": begin}), "create", "a", "b")
			other := state.Record("b")
			state.RecordOutcome("a", test.outcome, t0)
			state.RecordOutcome("x", succeeded, t0) // unknown id
			equal(t, "record", state.Record("a"), test.want)
			equal(t, "ERR-10 PROG-01 the record of the other", state.Record("b"), other)
		})
	}
}

// A record must fit on the object together with other records.
func TestRecordOutcome_TruncatesMessages(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"PROG-18 what is short stays", repeat("a", 1024), repeat("a", 1024)},
		{"PROG-18 what is long is cut", repeat("a", 1025), repeat("a", 1024) + "..."},
		{"PROG-18 not within a character", repeat("a", 1023) + "é", repeat("a", 1023) + "..."},
		{"PROG-18 nor within a longer one", repeat("a", 1021) + "\U0001F600b", repeat("a", 1021) + "..."},
		{"PROG-18 behind a character", repeat("a", 1022) + "éb", repeat("a", 1022) + "é..."},
		{"PROG-18 an empty one stays", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			state := begun(t, configMap(), "create", "a")
			state.RecordOutcome("a", progress.Outcome{Err: errors.New(test.text), Final: true, Attempted: true}, t0)
			equal(t, "message", state.Record("a").Message, test.want)
		})
	}
}

func TestSetRecord(t *testing.T) {
	state := begun(t, configMap(), "create", "a", "b")
	before := state.Record("a")
	state.RecordOutcome("a", succeeded, t0)
	state.RecordOutcome("b", succeeded, t0)
	state.SetRecord("a", before)
	state.SetRecord("x", before) // unknown id
	equal(t, "the record of the one", state.Record("a"), before)
	equal(t, "the success of the other", state.Record("b").Success, true)
	equal(t, "due", state.Due(t0), []string{"a"})
}

func TestDoneAndSummary(t *testing.T) {
	state := loaded(t, holding(t, map[string]progress.Record{
		"passive": {Started: t0, Purpose: "create", Retries: 1},
	}), "passive", "a", "b", "c")
	state.Begin("create", []string{"a", "b", "c"}, t0)
	for _, step := range []struct {
		name    string
		id      string
		outcome progress.Outcome
		done    bool
		sum     progress.Summary
	}{
		{"ERR-10 one fails, the others are left", "a", failed, false, progress.Summary{Failed: 1, Left: 2}},
		{"one succeeds", "b", succeeded, false, progress.Summary{Failed: 1, Succeeded: 1, Left: 1}},
		{"one is delayed", "c", again(time.Hour), false, progress.Summary{Failed: 1, Succeeded: 1, Left: 1}},
		{"PROG-19 PROG-27 PROG-28 all ended, the passive one does not count", "c", succeeded, true, progress.Summary{Failed: 1, Succeeded: 2}},
	} {
		state.RecordOutcome(step.id, step.outcome, t0)
		equal(t, step.name+": done", state.Done(), step.done)
		equal(t, step.name+": summary", state.Summary(), step.sum)
	}
}

func TestDelay(t *testing.T) {
	at := func(delay time.Duration) progress.Record {
		return progress.Record{Started: t0, Delayed: t0.Add(delay), Purpose: "create"}
	}
	ended := progress.Record{Started: t0, Purpose: "create", Success: true}
	for _, test := range []struct {
		name     string
		records  map[string]progress.Record
		selected []string
		want     time.Duration
		left     bool
	}{
		{"DLY-01 none left", map[string]progress.Record{"a": ended}, []string{"a"}, 0, false},
		{"DLY-02 one that was not attempted yet", nil, []string{"a"}, 0, true},
		{"DLY-02 one that waits", map[string]progress.Record{"a": at(time.Minute)}, []string{"a"}, time.Minute, true},
		{"DLY-02 PROG-31 one whose time was before", map[string]progress.Record{"a": at(-time.Minute)}, []string{"a"}, 0, true},
		{"DLY-01 the nearest", map[string]progress.Record{"a": at(time.Hour), "b": at(time.Minute), "c": at(time.Hour)}, []string{"a", "b", "c"}, time.Minute, true},
		{"DLY-02 one waits, another need not", map[string]progress.Record{"a": at(time.Hour)}, []string{"a", "b"}, 0, true},
		{"DLY-02 the finished do not count", map[string]progress.Record{"a": at(time.Hour), "b": ended}, []string{"a", "b"}, time.Hour, true},
		{"PROG-28 the passive do not count", map[string]progress.Record{"a": at(time.Hour), "b": at(time.Minute)}, []string{"a"}, time.Hour, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			state := loaded(t, holding(t, test.records), "a", "b", "c")
			state.Begin("create", test.selected, t0)
			delay, left := state.Delay(t0)
			if delay != test.want || left != test.left {
				t.Errorf("delay = %s, %t, want %s, %t", delay, left, test.want, test.left)
			}
		})
	}
}

func TestLoad_UnreadableRecords(t *testing.T) {
	obj := configMap(kopfPrefix+"/a", `{"retries":`, kopfPrefix+"/b", `{"retries":2,"purpose":"create"}`, kopfPrefix+"/c", `{"started":"?"}`)
	state, err := progress.Load(store, obj, []string{"a", "b", "c", "d"})
	if err == nil {
		t.Error("B-30: there is no word about the broken records")
	}
	equal(t, "B-30 stored", state.HasStale(ever), true)
	state.Begin("create", []string{"a", "b", "c", "d"}, t0)
	fresh := progress.Record{Started: t0, Purpose: "create"}
	equal(t, "B-30 a broken record", state.Record("a"), fresh)
	equal(t, "B-30 another broken record", state.Record("c"), fresh)
	equal(t, "B-30 the sound record beside them", state.Record("b"), progress.Record{Started: t0, Purpose: "create", Retries: 2})
	equal(t, "B-30 due", state.Due(t0), []string{"a", "b", "c", "d"})
}

// PROG-07 B-31: only messages are cut, between characters, if the object has no room for them.
func TestTruncateMessages(t *testing.T) {
	state := begun(t, &metav1.PartialObjectMetadata{}, "create", "a", "b")
	state.RecordOutcome("a", progress.Outcome{Err: errors.New("не работает"), Delay: time.Minute}, t0)
	before := state.Record("a")
	for _, test := range []struct {
		limit int
		want  string
	}{{100, "не работает"}, {6, "не ..."}, {0, "..."}} {
		state.TruncateMessages(test.limit)
		if got := state.Record("a").Message; got != test.want {
			t.Errorf("with %d bytes, the message is %q, want %q", test.limit, got, test.want)
		}
	}
	after := state.Record("a")
	before.Message = after.Message
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("something else has changed:\n%s", diff)
	}
	if got := state.Record("b").Message; got != "" {
		t.Errorf("a record without a message has %q", got)
	}
}
