package progress_test

import (
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// B-01, B-02: if an update is reverted during its cycle, its finished handlers start again.
func TestState_Restart(t *testing.T) {
	done := progress.Record{Started: t0, Stopped: t0, Purpose: "update", Retries: 1, Success: true}
	late := progress.Record{Started: t0, Delayed: t0.Add(time.Hour), Purpose: "update", Retries: 2, Message: "trouble"}
	parent := progress.Record{Started: t0, Delayed: t0.Add(time.Hour), Purpose: "update", Subrefs: []string{"p/a", "p/b"}}
	other := progress.Record{Started: t0, Stopped: t0, Purpose: "create", Retries: 1, Success: true}
	obj := objectWith(t, map[string]progress.Record{"a": done, "b": late, "p": parent, "p/a": done, "p/b": late, "o": other})
	state := loadState(t, obj, "a", "b", "p", "o")
	state.Restart("update")
	equal(t, "B-02 record of a finished handler", state.Record("a"), progress.Record{Purpose: "update"})
	equal(t, "B-11 record of an unfinished handler", state.Record("b"), late)
	equal(t, "B-24 a waiting parent is due", state.Record("p").Due(t0), true)
	equal(t, "SUB-07 record of a finished sub-handler", state.Record("p/a"), progress.Record{Purpose: "update"})
	equal(t, "B-11 record of an unfinished sub-handler", state.Record("p/b"), late)
	equal(t, "record of another cause", state.Record("o"), other)

	state.Begin("update", []string{"b", "p"}, t0)
	if err := state.Save(store, obj); err != nil {
		t.Fatal(err)
	}
	equal(t, "B-02 remaining records", namesOf(obj, kopfPrefix), []string{"b", "p", "p.b"})
}

// KEY-13: records that another client has restored are ignored and removed.
func TestState_RestartAll(t *testing.T) {
	done := progress.Record{Started: t0, Stopped: t0, Purpose: "update", Retries: 1, Success: true}
	late := progress.Record{Started: t0, Delayed: t0.Add(time.Hour), Purpose: "update", Retries: 2, Message: "trouble"}
	parent := progress.Record{Started: t0, Purpose: "create", Subrefs: []string{"p/a"}}
	obj := objectWith(t, map[string]progress.Record{"a": done, "b": late, "p": parent, "p/a": done})
	state := loadState(t, obj, "a", "b", "p", "c")
	state.RestartAll()
	if state.HasRecords("update") || state.HasAttempts("update") {
		t.Error("got records of the update, want none")
	}
	at := t0.Add(time.Minute)
	state.Begin("update", []string{"b", "c"}, at)
	equal(t, "KEY-13 new record", state.Record("b"), progress.Record{Started: at, Purpose: "update"})
	if err := state.Save(store, obj); err != nil {
		t.Fatal(err)
	}
	equal(t, "KEY-13 remaining records", namesOf(obj, kopfPrefix), []string{"b", "c"})
}
