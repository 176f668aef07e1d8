package progress_test

import (
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// An update that is undone midway is one of its undoing: who is done with it begins anew (B-01, B-02).
func TestRenew(t *testing.T) {
	done := progress.Record{Started: t0, Stopped: t0, Purpose: "update", Retries: 1, Success: true}
	late := progress.Record{Started: t0, Delayed: t0.Add(time.Hour), Purpose: "update", Retries: 2, Message: "trouble"}
	parent := progress.Record{Started: t0, Delayed: t0.Add(time.Hour), Purpose: "update", Subrefs: []string{"p/a", "p/b"}}
	other := progress.Record{Started: t0, Stopped: t0, Purpose: "create", Retries: 1, Success: true}
	obj := holding(t, map[string]progress.Record{"a": done, "b": late, "p": parent, "p/a": done, "p/b": late, "o": other})
	state := loaded(t, obj, "a", "b", "p", "o")
	state.Restart("update")
	equal(t, "B-02 who is done begins anew", state.Record("a"), progress.Record{Purpose: "update"})
	equal(t, "B-11 who is not keeps attempts and delay", state.Record("b"), late)
	equal(t, "B-24 who only waits is called at once", state.Record("p").Due(t0), true)
	equal(t, "SUB-07 sub-handlers alike", state.Record("p/a"), progress.Record{Purpose: "update"})
	equal(t, "B-11 and their delays", state.Record("p/b"), late)
	equal(t, "records of other causes are none of it", state.Record("o"), other)

	state.Begin("update", []string{"b", "p"}, t0)
	if err := state.Save(store, obj); err != nil {
		t.Fatal(err)
	}
	equal(t, "B-02 no success that does not count stays on the object", namesOf(obj, kopfPrefix), []string{"b", "p", "p.b"})
}

// Records that another client has put there are of no use, and go (KEY-13).
func TestForget(t *testing.T) {
	done := progress.Record{Started: t0, Stopped: t0, Purpose: "update", Retries: 1, Success: true}
	late := progress.Record{Started: t0, Delayed: t0.Add(time.Hour), Purpose: "update", Retries: 2, Message: "trouble"}
	parent := progress.Record{Started: t0, Purpose: "create", Subrefs: []string{"p/a"}}
	obj := holding(t, map[string]progress.Record{"a": done, "b": late, "p": parent, "p/a": done})
	state := loaded(t, obj, "a", "b", "p", "c")
	state.RestartAll()
	if state.HasRecords("update") || state.HasAttempts("update") {
		t.Error("something is known of the update")
	}
	at := t0.Add(time.Minute)
	state.Begin("update", []string{"b", "c"}, at)
	equal(t, "KEY-13 it begins anew, and at once", state.Record("b"), progress.Record{Started: at, Purpose: "update"})
	if err := state.Save(store, obj); err != nil {
		t.Fatal(err)
	}
	equal(t, "KEY-13 the others go", namesOf(obj, kopfPrefix), []string{"b", "c"})
}
