package progress_test

import (
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func TestBegin_RecordsOfOtherCauses(t *testing.T) {
	earlier := t0.Add(-time.Hour)
	for _, test := range []struct {
		name         string
		stored, want progress.Record
		due          bool
	}{
		{
			name:   "B-02 SE-03 a success of another cause starts again",
			stored: progress.Record{Started: earlier, Stopped: earlier, Purpose: "resume", Retries: 1, Success: true},
			want:   progress.Record{Started: t0, Purpose: "update"},
			due:    true,
		},
		{
			name:   "B-02 SE-03 a failure of another cause starts again",
			stored: progress.Record{Started: earlier, Stopped: earlier, Purpose: "resume", Retries: 7, Failure: true, Message: "m"},
			want:   progress.Record{Started: t0, Purpose: "update"},
			due:    true,
		},
		{
			name:   "PROG-22 PROG-24 B-11 an unfinished handler keeps its attempts and its delay",
			stored: progress.Record{Started: earlier, Delayed: t0.Add(time.Minute), Purpose: "create", Retries: 3, Message: "m"},
			want:   progress.Record{Started: earlier, Delayed: t0.Add(time.Minute), Purpose: "update", Retries: 3, Message: "m"},
		},
		{
			name:   "PROG-24 an unfinished handler that is due stays due",
			stored: progress.Record{Started: earlier, Purpose: "create", Retries: 3},
			want:   progress.Record{Started: earlier, Purpose: "update", Retries: 3},
			due:    true,
		},
		{
			name:   "SUB-12 an unfinished handler keeps its sub-handlers",
			stored: progress.Record{Started: earlier, Purpose: "create", Subrefs: []string{"a/x"}},
			want:   progress.Record{Started: earlier, Purpose: "update", Subrefs: []string{"a/x"}},
			due:    true,
		},
		{
			name:   "SUB-12 PROG-20 a handler that starts again keeps the names of its sub-handlers",
			stored: progress.Record{Started: earlier, Purpose: "create", Success: true, Subrefs: []string{"a/x"}},
			want:   progress.Record{Started: t0, Purpose: "update", Subrefs: []string{"a/x"}},
			due:    true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			state := newState(t, objectWith(t, map[string]progress.Record{"a": test.stored}), "update", "a")
			equal(t, "record", state.Record("a"), test.want)
			equal(t, "due", len(state.Due(t0)) == 1, test.due)
		})
	}
}

// A finished handler that is independent of the cause, such as a resume handler, stays finished.
func TestRelabel(t *testing.T) {
	earlier := t0.Add(-time.Hour)
	done := func(purpose string) progress.Record {
		return progress.Record{Started: earlier, Stopped: earlier, Purpose: purpose, Retries: 1, Success: true}
	}
	state := loadState(t, objectWith(t, map[string]progress.Record{
		"joins":    done("resume"),
		"failed":   {Started: earlier, Purpose: "resume", Retries: 1, Failure: true, Message: "m"},
		"left":     {Started: earlier, Purpose: "resume", Retries: 2},
		"own":      done("resume"),
		"wildcard": done(""),
	}), "joins", "failed", "left", "own", "wildcard", "none")
	state.Relabel("update", []string{"joins", "failed", "left", "wildcard", "none"})
	equal(t, "CAUSE-23 B-12 record of a successful handler", state.Record("joins"), done("update"))
	equal(t, "CAUSE-23 B-12 record of a failed handler", state.Record("failed"),
		progress.Record{Started: earlier, Purpose: "update", Retries: 1, Failure: true, Message: "m"})
	equal(t, "PROG-22 unchanged record of an unfinished handler", state.Record("left"), progress.Record{Started: earlier, Purpose: "resume", Retries: 2})
	equal(t, "PROG-25 record without a purpose", state.Record("wildcard"), done(""))
	equal(t, "record of an unknown handler", state.Record("none"), progress.Record{})

	superseded := state.Begin("update", []string{"joins", "failed", "left", "own", "none"}, t0)
	equal(t, "PROG-22 superseded", superseded, map[string]progress.Summary{"resume": {Succeeded: 1, Left: 1}})
	equal(t, "B-02 B-12 due handlers", state.Due(t0), []string{"left", "own", "none"})
}

func TestBegin_ReturnsSupersededCauses(t *testing.T) {
	state := loadState(t, objectWith(t, map[string]progress.Record{
		"a": {Purpose: "create", Success: true},
		"b": {Purpose: "create", Failure: true},
		"c": {Purpose: "create", Retries: 1},
		"d": {Purpose: "create"},
		"e": {Purpose: "resume", Success: true},
		"f": {Purpose: "delete", Retries: 1},
		"g": {Retries: 1},
	}), "a", "b", "c", "d", "e", "f", "g", "h")
	got := state.Begin("delete", []string{"a", "f", "g", "h"}, t0)
	equal(t, "PROG-22 PROG-25 superseded causes", got,
		map[string]progress.Summary{"create": {Succeeded: 1, Failed: 1, Left: 2}, "resume": {Succeeded: 1}})

	got = state.Begin("delete", []string{"a", "f", "g", "h"}, t0)
	if _, ok := got["create"]; !ok || got["create"].Succeeded != 0 {
		t.Errorf("PROG-22: superseded causes = %v, want the causes of the remaining records", got)
	}
}

func TestSave_RemovesRecordsOfOtherCauses(t *testing.T) {
	obj := objectWith(t, map[string]progress.Record{
		"active":   {Started: t0, Purpose: "create", Retries: 1},
		"foreign":  {Started: t0, Purpose: "create", Retries: 1, Subrefs: []string{"foreign/x"}},
		"own":      {Started: t0, Purpose: "delete", Retries: 1},
		"wildcard": {Started: t0, Retries: 1},
		"stranger": {Started: t0, Purpose: "create", Retries: 1},
	})
	mustStore(t, store, obj, "foreign/x", progress.Record{Purpose: "create"})
	state := loadState(t, obj, "active", "foreign", "own", "wildcard", "none")
	state.Begin("delete", []string{"active"}, t0)
	if err := state.Save(store, obj); err != nil {
		t.Fatal(err)
	}
	equal(t, "PROG-22 PROG-23 PROG-25 PROG-11 remaining records", namesOf(obj, kopfPrefix), []string{"active", "own", "stranger", "wildcard"})
	equal(t, "PROG-22 record of the continued handler", *mustFetch(t, store, obj, "active"),
		progress.Record{Started: t0, Purpose: "delete", Retries: 1})
}

// Trace C-4: the object is deleted during its creation, and both causes have a handler with the same id.
func TestBegin_DeletionSupersedesCreation(t *testing.T) {
	obj := objectWith(t, map[string]progress.Record{
		"fn": {Started: t0.Add(-time.Hour), Purpose: "create", Retries: 1, Message: "m"},
		"ok": {Started: t0.Add(-time.Hour), Purpose: "create", Retries: 1, Success: true},
	})
	state := loadState(t, obj, "fn", "ok")
	equal(t, "PROG-22 superseded", state.Begin("delete", []string{"fn"}, t0),
		map[string]progress.Summary{"create": {Succeeded: 1, Left: 1}})
	equal(t, "PROG-24 attempt", state.Record("fn").Attempt(),
		progress.Attempt{Number: 1, Started: t0.Add(-time.Hour), Last: "m"})
	state.RecordOutcome("fn", succeeded, t0)
	equal(t, "CAUSE-18 done", state.Done(), true)
	if err := state.Purge(store, obj); err != nil {
		t.Fatal(err)
	}
	equal(t, "PROG-20 CAUSE-18 number of remaining annotations", len(obj.GetAnnotations()), 0)
}
