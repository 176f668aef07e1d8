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

// newState returns the state of the object after Begin at t0 with all of its handlers.
func newState(t *testing.T, obj client.Object, purpose string, ids ...string) *progress.State {
	t.Helper()
	state := loadState(t, obj, ids...)
	state.Begin(purpose, ids, t0)
	return state
}

func loadState(t *testing.T, obj client.Object, ids ...string) *progress.State {
	t.Helper()
	state, err := progress.Load(store, obj, ids)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return state
}

// objectWith returns an object with the given records.
func objectWith(t *testing.T, records map[string]progress.Record) client.Object {
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
	state := loadState(t, configMap(), "a", "b", "c")
	if superseded := state.Begin("create", []string{"a", "c"}, t0); len(superseded) > 0 {
		t.Errorf("PROG-22: superseded causes = %v, want none", superseded)
	}
	fresh := progress.Record{Started: t0, Purpose: "create"}
	equal(t, "PROG-12 record of a selected handler", state.Record("a"), fresh)
	equal(t, "PROG-12 record of another selected handler", state.Record("c"), fresh)
	equal(t, "PROG-12 record of an unselected handler", state.Record("b"), progress.Record{})
	equal(t, "record of an unknown handler", state.Record("x"), progress.Record{})
	equal(t, "PROG-15 HND-10 due handlers in the order of registration", state.Due(t0), []string{"a", "c"})
	equal(t, "PROG-19 done", state.Done(), false)
	equal(t, "PROG-10 HasStale", state.HasStale(maxTime), false)
	equal(t, "PROG-22 summary", state.Summary(), progress.Summary{Left: 2})
}

func TestState_NoHandlers(t *testing.T) {
	state := newState(t, configMap(), "create")
	equal(t, "PROG-19 done without selected handlers", state.Done(), true)
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
			name:   "PROG-29 a finished handler",
			stored: progress.Record{Started: earlier, Stopped: earlier, Purpose: "update", Retries: 1, Success: true},
			want:   progress.Record{Started: earlier, Stopped: earlier, Purpose: "update", Retries: 1, Success: true},
		},
		{
			name:   "PROG-27 PROG-29 a permanently failed handler",
			stored: progress.Record{Started: earlier, Stopped: earlier, Purpose: "update", Retries: 3, Failure: true, Message: "m"},
			want:   progress.Record{Started: earlier, Stopped: earlier, Purpose: "update", Retries: 3, Failure: true, Message: "m"},
		},
		{
			name:   "PROG-29 DLY-13 a delayed handler keeps its delay and attempts",
			stored: progress.Record{Started: earlier, Delayed: t0.Add(time.Second), Purpose: "update", Retries: 2, Message: "m"},
			want:   progress.Record{Started: earlier, Delayed: t0.Add(time.Second), Purpose: "update", Retries: 2, Message: "m"},
		},
		{
			name:   "PROG-29 DLY-13 a handler is due when its delay ends",
			stored: progress.Record{Started: earlier, Delayed: t0, Purpose: "update", Retries: 2},
			want:   progress.Record{Started: earlier, Delayed: t0, Purpose: "update", Retries: 2},
			due:    true,
		},
		{
			name:   "PROG-29 an interrupted handler is due",
			stored: progress.Record{Started: earlier, Purpose: "update"},
			want:   progress.Record{Started: earlier, Purpose: "update"},
			due:    true,
		},
		{
			name:   "PROG-25 a record without a purpose matches any cause",
			stored: progress.Record{Started: earlier, Retries: 4},
			want:   progress.Record{Started: earlier, Purpose: "update", Retries: 4},
			due:    true,
		},
		{
			name:   "PROG-25 a finished record without a purpose matches any cause",
			stored: progress.Record{Started: earlier, Retries: 4, Success: true},
			want:   progress.Record{Started: earlier, Purpose: "update", Retries: 4, Success: true},
		},
		{
			name:   "PROG-12 PROG-14 a record without a start time starts now",
			stored: progress.Record{Retries: 4, Purpose: "update"},
			want:   progress.Record{Started: t0, Purpose: "update", Retries: 4},
			due:    true,
		},
		{
			name:   "SUB-12 sub-handlers are kept",
			stored: progress.Record{Started: earlier, Purpose: "update", Subrefs: []string{"a/x"}},
			want:   progress.Record{Started: earlier, Purpose: "update", Subrefs: []string{"a/x"}},
			due:    true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			state := loadState(t, objectWith(t, map[string]progress.Record{"a": test.stored}), "a")
			if superseded := state.Begin("update", []string{"a"}, t0); len(superseded) > 0 {
				t.Errorf("PROG-22 PROG-25: superseded causes = %v, want none", superseded)
			}
			equal(t, "record", state.Record("a"), test.want)
			equal(t, "due", len(state.Due(t0)) == 1, test.due)
			equal(t, "PROG-10 HasStale", state.HasStale(maxTime), true)
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
			name:    "PROG-16 PROG-18 permanent failure",
			outcome: failed,
			want:    progress.Record{Started: started, Stopped: t0, Purpose: "create", Retries: 3, Failure: true, Message: "boom", Subrefs: []string{"a/x"}},
		},
		{
			name:    "PROG-16 PROG-17 retry with a delay",
			outcome: again(time.Minute),
			want:    progress.Record{Started: started, Delayed: t0.Add(time.Minute), Attempted: t0, Purpose: "create", Retries: 3, Message: "boom", Subrefs: []string{"a/x"}},
		},
		{
			name:    "PROG-17 immediate retry",
			outcome: again(0),
			want:    progress.Record{Started: started, Delayed: t0, Attempted: t0, Purpose: "create", Retries: 3, Message: "boom", Subrefs: []string{"a/x"}},
		},
		{
			name:    "PROG-18 ERR an ignored error leaves no message",
			outcome: progress.Outcome{Err: errBoom, Final: true, Success: true, Attempted: true},
			want:    progress.Record{Started: started, Stopped: t0, Purpose: "create", Retries: 3, Success: true, Subrefs: []string{"a/x"}},
		},
		{
			name:    "ERR-02 ERR-03 limit exceeded without an attempt",
			outcome: progress.Outcome{Err: errBoom, Final: true},
			want:    progress.Record{Started: started, Stopped: t0, Purpose: "create", Retries: 2, Failure: true, Message: "boom", Subrefs: []string{"a/x"}},
		},
		{
			name:    "PROG-29 an interruption changes nothing",
			outcome: progress.Outcome{Err: errBoom, Interrupted: true},
			want:    begin,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			state := newState(t, objectWith(t, map[string]progress.Record{"a": begin}), "create", "a", "b")
			other := state.Record("b")
			state.RecordOutcome("a", test.outcome, t0)
			state.RecordOutcome("x", succeeded, t0) // unknown id
			equal(t, "record", state.Record("a"), test.want)
			equal(t, "ERR-10 PROG-01 record of the other handler", state.Record("b"), other)
		})
	}
}

// Records must fit on the object together.
func TestRecordOutcome_TruncatesMessages(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"PROG-18 a short message is kept", repeat("a", 1024), repeat("a", 1024)},
		{"PROG-18 a long message is truncated", repeat("a", 1025), repeat("a", 1024) + "..."},
		{"PROG-18 a message is not truncated within a character", repeat("a", 1023) + "é", repeat("a", 1023) + "..."},
		{"PROG-18 a message is not truncated within a four-byte character", repeat("a", 1021) + "\U0001F600b", repeat("a", 1021) + "..."},
		{"PROG-18 a message is truncated after a character", repeat("a", 1022) + "éb", repeat("a", 1022) + "é..."},
		{"PROG-18 an empty message is kept", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			state := newState(t, configMap(), "create", "a")
			state.RecordOutcome("a", progress.Outcome{Err: errors.New(test.text), Final: true, Attempted: true}, t0)
			equal(t, "message", state.Record("a").Message, test.want)
		})
	}
}

func TestSetRecord(t *testing.T) {
	state := newState(t, configMap(), "create", "a", "b")
	before := state.Record("a")
	state.RecordOutcome("a", succeeded, t0)
	state.RecordOutcome("b", succeeded, t0)
	state.SetRecord("a", before)
	state.SetRecord("x", before) // unknown id
	equal(t, "record", state.Record("a"), before)
	equal(t, "success of the other handler", state.Record("b").Success, true)
	equal(t, "due", state.Due(t0), []string{"a"})
}

func TestDoneAndSummary(t *testing.T) {
	state := loadState(t, objectWith(t, map[string]progress.Record{
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
		{"ERR-10 one handler fails", "a", failed, false, progress.Summary{Failed: 1, Left: 2}},
		{"one handler succeeds", "b", succeeded, false, progress.Summary{Failed: 1, Succeeded: 1, Left: 1}},
		{"one handler is delayed", "c", again(time.Hour), false, progress.Summary{Failed: 1, Succeeded: 1, Left: 1}},
		{"PROG-19 PROG-27 PROG-28 all selected handlers have finished", "c", succeeded, true, progress.Summary{Failed: 1, Succeeded: 2}},
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
		{"DLY-01 all finished", map[string]progress.Record{"a": ended}, []string{"a"}, 0, false},
		{"DLY-02 a handler without attempts", nil, []string{"a"}, 0, true},
		{"DLY-02 a delayed handler", map[string]progress.Record{"a": at(time.Minute)}, []string{"a"}, time.Minute, true},
		{"DLY-02 PROG-31 an expired delay", map[string]progress.Record{"a": at(-time.Minute)}, []string{"a"}, 0, true},
		{"DLY-01 the shortest delay", map[string]progress.Record{"a": at(time.Hour), "b": at(time.Minute), "c": at(time.Hour)}, []string{"a", "b", "c"}, time.Minute, true},
		{"DLY-02 one delayed handler and one due handler", map[string]progress.Record{"a": at(time.Hour)}, []string{"a", "b"}, 0, true},
		{"DLY-02 finished handlers are ignored", map[string]progress.Record{"a": at(time.Hour), "b": ended}, []string{"a", "b"}, time.Hour, true},
		{"PROG-28 unselected handlers are ignored", map[string]progress.Record{"a": at(time.Hour), "b": at(time.Minute)}, []string{"a"}, time.Hour, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			state := loadState(t, objectWith(t, test.records), "a", "b", "c")
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
		t.Error("B-30: got no error for the unreadable records")
	}
	equal(t, "B-30 HasStale", state.HasStale(maxTime), true)
	state.Begin("create", []string{"a", "b", "c", "d"}, t0)
	fresh := progress.Record{Started: t0, Purpose: "create"}
	equal(t, "B-30 record that replaces an unreadable record", state.Record("a"), fresh)
	equal(t, "B-30 record that replaces another unreadable record", state.Record("c"), fresh)
	equal(t, "B-30 valid record", state.Record("b"), progress.Record{Started: t0, Purpose: "create", Retries: 2})
	equal(t, "B-30 due", state.Due(t0), []string{"a", "b", "c", "d"})
}

// PROG-07 B-31: if the object has no room, only messages are truncated, between characters.
func TestTruncateMessages(t *testing.T) {
	state := newState(t, &metav1.PartialObjectMetadata{}, "create", "a", "b")
	state.RecordOutcome("a", progress.Outcome{Err: errors.New("не работает"), Delay: time.Minute}, t0)
	before := state.Record("a")
	for _, test := range []struct {
		limit int
		want  string
	}{{100, "не работает"}, {6, "не ..."}, {0, "..."}} {
		state.TruncateMessages(test.limit)
		if got := state.Record("a").Message; got != test.want {
			t.Errorf("limit of %d bytes: message = %q, want %q", test.limit, got, test.want)
		}
	}
	after := state.Record("a")
	before.Message = after.Message
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("TruncateMessages must change only the message (-before +after):\n%s", diff)
	}
	if got := state.Record("b").Message; got != "" {
		t.Errorf("message of a record without a message = %q, want none", got)
	}
}
