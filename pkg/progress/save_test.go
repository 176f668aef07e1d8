package progress_test

import (
	"errors"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func TestSave_WritesSelectedHandlers(t *testing.T) {
	obj := configMap()
	state := loadState(t, obj, "a", "b", "c")
	state.Begin("create", []string{"a", "b"}, t0)
	state.RecordOutcome("a", succeeded, t0)
	if err := state.Save(store, obj); err != nil {
		t.Fatal(err)
	}
	equal(t, "PROG-13 annotations of the selected handlers", obj.GetAnnotations(), map[string]string{
		kopfPrefix + "/a": `{"started":"2020-12-31T23:59:59.123456+00:00","stopped":"2020-12-31T23:59:59.123456+00:00",` +
			`"purpose":"create","retries":1,"success":true,"failure":false}`,
		kopfPrefix + "/b": `{"started":"2020-12-31T23:59:59.123456+00:00","purpose":"create","retries":0,"success":false,"failure":false}`,
	})
}

func TestSave_NormalizesRecords(t *testing.T) {
	obj := configMap(
		kopfPrefix+"/a", `{ "purpose": "create", "started": "2021-01-01T00:59:59.123456+01:00", "future": 1 }`,
		kopfPrefix+"/b", `{"started":"2020-12-31T23:59:59.123456+00:00","purpose":"create","retries":1,"success":true,"failure":false}`,
	)
	sound := obj.Annotations[kopfPrefix+"/b"]
	state := newState(t, obj, "create", "a", "b")
	if err := state.Save(store, obj); err != nil {
		t.Fatal(err)
	}
	equal(t, "PROG-14 MIG-07 rewritten record of another client", obj.Annotations[kopfPrefix+"/a"],
		`{"started":"2020-12-31T23:59:59.123456+00:00","purpose":"create","retries":0,"success":false,"failure":false}`)
	equal(t, "PROG-14 unchanged own record", obj.Annotations[kopfPrefix+"/b"], sound)
}

func TestSave_ReplacesUnreadableRecords(t *testing.T) {
	obj := configMap(kopfPrefix+"/a", `{{{`, kopfPrefix+"/b", `]]]`)
	state, _ := progress.Load(store, obj, []string{"a", "b"})
	state.Begin("create", []string{"a"}, t0)
	if err := state.Save(store, obj); err != nil {
		t.Fatal(err)
	}
	equal(t, "B-30 record that replaces the unreadable record", *mustFetch(t, store, obj, "a"), progress.Record{Started: t0, Purpose: "create"})
}

// Each reconcile reads only the stored state.
func TestSave_ContinuesOverSeveralReconciles(t *testing.T) {
	obj := configMap()
	state := newState(t, obj, "create", "a", "b")
	state.RecordOutcome("a", succeeded, t0)
	state.RecordOutcome("b", again(time.Minute), t0)
	if err := state.Save(store, obj); err != nil {
		t.Fatal(err)
	}

	later := t0.Add(time.Minute)
	state = loadState(t, obj, "a", "b")
	state.Begin("create", []string{"a", "b"}, later)
	equal(t, "PROG-29 number of due handlers before the delay ends", len(state.Due(later.Add(-time.Second))), 0)
	equal(t, "PROG-29 due", state.Due(later), []string{"b"})
	equal(t, "PROG-29 attempt", state.Record("b").Attempt(), progress.Attempt{Number: 1, Started: t0, Last: "boom"})
	state.RecordOutcome("b", succeeded, later)
	equal(t, "PROG-19 done", state.Done(), true)
	if err := state.Purge(store, obj); err != nil {
		t.Fatal(err)
	}
	equal(t, "PROG-20 number of remaining annotations", len(obj.GetAnnotations()), 0)
}

func TestPurge_RemovesAllRecords(t *testing.T) {
	obj := objectWith(t, map[string]progress.Record{
		"active":  {Started: t0, Purpose: "create", Success: true, Subrefs: []string{"active/x", "active/x/y"}},
		"passive": {Started: t0, Purpose: "create", Subrefs: []string{"passive/x"}},
		"foreign": {Started: t0, Purpose: "update"},

		"active/x": {}, "active/x/y": {}, "passive/x": {}, "stranger": {},
	})
	obj.GetAnnotations()[kopfPrefix+"/broken"] = "{"
	obj.GetAnnotations()["example.com/other"] = "x"
	state, _ := progress.Load(store, obj, []string{"active", "passive", "foreign", "broken", "none"})
	state.Begin("create", []string{"active"}, t0)
	if err := state.Purge(store, obj); err != nil {
		t.Fatal(err)
	}
	equal(t, "PROG-20 SUB-12 B-30 PROG-11 remaining keys of unknown handlers", keysOf(obj),
		[]string{"example.com/other", kopfPrefix + "/stranger"})
}

func TestPurge_WithoutRecords(t *testing.T) {
	obj := configMap()
	state := newState(t, obj, "create", "a")
	state.RecordOutcome("a", succeeded, t0)
	if err := state.Purge(store, obj); err != nil {
		t.Fatal(err)
	}
	equal(t, "PROG-21 object", obj, configMap())
}

// Purge removes the records that Save has written earlier in the same reconcile.
func TestPurge_RemovesRecordsOfSave(t *testing.T) {
	obj := configMap()
	state := newState(t, obj, "create", "a", "b")
	state.RecordOutcome("a", succeeded, t0)
	if err := state.Save(store, obj); err != nil {
		t.Fatal(err)
	}
	equal(t, "HasStale", state.HasStale(maxTime), true)
	state.RecordOutcome("b", succeeded, t0)
	if err := state.Purge(store, obj); err != nil {
		t.Fatal(err)
	}
	equal(t, "PROG-20 remaining keys", keysOf(obj), []string(nil))
}

func TestPurge_SubHandlersOfSupersededCause(t *testing.T) {
	obj := objectWith(t, map[string]progress.Record{
		"a":   {Started: t0, Purpose: "create", Success: true, Subrefs: []string{"a/x"}},
		"a/x": {Started: t0, Purpose: "create", Success: true},
	})
	state := newState(t, obj, "update", "a")
	state.RecordOutcome("a", succeeded, t0)
	if err := state.Purge(store, obj); err != nil {
		t.Fatal(err)
	}
	equal(t, "PROG-20 SUB-12 number of remaining annotations", len(obj.GetAnnotations()), 0)
}

type embeddedStore = progress.Store

// failingStore returns errors for some ids.
type failingStore struct {
	embeddedStore
	ids map[string]error
}

func (r failingStore) Store(obj client.Object, id string, record progress.Record) error {
	if err := r.ids[id]; err != nil {
		return err
	}
	return r.embeddedStore.Store(obj, id, record)
}

func (r failingStore) Purge(obj client.Object, id string) error {
	if err := r.ids[id]; err != nil {
		return err
	}
	return r.embeddedStore.Purge(obj, id)
}

func TestState_ReturnsStoreErrors(t *testing.T) {
	errA, errX := errors.New("no a"), errors.New("no x")
	bad := failingStore{store, map[string]error{"a": errA, "b/x": errX}}
	obj := objectWith(t, map[string]progress.Record{
		"a": {Purpose: "create"}, "b": {Purpose: "create", Subrefs: []string{"b/x"}}, "c": {Purpose: "create"},
	})
	state := newState(t, obj, "create", "a", "b", "c")
	state.RecordOutcome("c", succeeded, t0)

	if err := state.Save(bad, obj); !errors.Is(err, errA) {
		t.Errorf("error of Save = %v, want the error of the store", err)
	}
	equal(t, "ERR-10 success of the other handler", mustFetch(t, store, obj, "c").Success, true)

	err := state.Purge(bad, obj)
	if !errors.Is(err, errA) || !errors.Is(err, errX) {
		t.Errorf("error of Purge = %v, want both errors of the store", err)
	}
	equal(t, "ERR-10 remaining records", namesOf(obj, kopfPrefix), []string{"a"})
}
