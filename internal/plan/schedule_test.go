package plan_test

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// stateOf returns the state of an object with stored records. The handlers with other ids are selected for an update.
func stateOf(t *testing.T, records map[string]progress.Record, selected ...string) *progress.State {
	t.Helper()
	store, obj := progress.Annotations(""), &unstructured.Unstructured{Object: m{"kind": "Widget"}}
	ids := slices.Clone(selected)
	for id, record := range records {
		if err := store.Store(obj, id, record); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	state, err := progress.Load(store, obj, ids)
	if err != nil {
		t.Fatal(err)
	}
	state.Begin("update", selected, now)
	return state
}

func TestSchedule(t *testing.T) {
	in := func(delay time.Duration) progress.Record {
		return progress.Record{Started: now, Purpose: "update", Retries: 1, Delayed: now.Add(delay)}
	}
	done := progress.Record{Started: now, Stopped: now, Purpose: "update", Retries: 1, Success: true}
	for _, test := range []struct {
		name      string
		situation plan.Situation
		selected  []string
		records   map[string]progress.Record
		delay     time.Duration
		left      bool
	}{
		{name: "DLY-11 no cause", situation: plan.Situation{Reason: cause.Noop}},
		{
			name: "B-11 no cause, a delay of an earlier cause has not passed", situation: plan.Situation{Reason: cause.Noop},
			records: map[string]progress.Record{"a": in(time.Minute), "b": in(time.Hour)}, delay: time.Hour, left: true,
		},
		{
			name: "B-11 no cause, the delay of an earlier cause has passed", situation: plan.Situation{Reason: cause.Noop},
			records: map[string]progress.Record{"a": in(0)},
		},
		{name: "CAUSE-06 no cause for an object that was edited", situation: plan.Situation{Reason: cause.Noop, Edited: true}},
		{name: "DLY-11 finished", situation: plan.Situation{Reason: cause.Update, Finished: true}, selected: []string{"a"}, records: map[string]progress.Record{"a": done}},
		{
			name: "B-11 finished, a handler that is not selected is delayed", situation: plan.Situation{Reason: cause.Update, Finished: true},
			records: map[string]progress.Record{"a": in(time.Minute)}, delay: time.Minute, left: true,
		},
		{
			name: "B-01 finished, the object was edited in the meantime", situation: plan.Situation{Reason: cause.Update, Finished: true, Edited: true},
			records: map[string]progress.Record{"a": in(time.Minute)}, left: true,
		},
		{name: "DLY-11 finished, the object is being deleted", situation: plan.Situation{Reason: cause.Delete, Finished: true}},
		{
			name: "CAUSE-02 without our finalizer", situation: plan.Situation{Reason: cause.Free},
			selected: []string{"a"}, records: map[string]progress.Record{"a": in(time.Minute)},
		},
		{
			name: "CAUSE-02 without our finalizer, finished, and edited in the meantime", situation: plan.Situation{Reason: cause.Free, Finished: true, Edited: true},
			records: map[string]progress.Record{"a": in(time.Minute)},
		},
		{
			name: "CAUSE-01 gone", situation: plan.Situation{Reason: cause.Gone}, selected: []string{"a"},
			records: map[string]progress.Record{"a": in(time.Minute)},
		},
		{
			name: "DLY-01 the next handler", situation: plan.Situation{Reason: cause.Update}, selected: []string{"a", "b"},
			records: map[string]progress.Record{"a": in(time.Minute), "b": in(time.Second)}, delay: time.Second, left: true,
		},
		{
			name: "DLY-02 a handler that was not called", situation: plan.Situation{Reason: cause.Update}, selected: []string{"a", "b"},
			records: map[string]progress.Record{"a": in(time.Minute)}, left: true,
		},
		{
			name: "DLY-02 a delay that has passed", situation: plan.Situation{Reason: cause.Update}, selected: []string{"a"},
			records: map[string]progress.Record{"a": in(-time.Minute)}, left: true,
		},
		{
			name: "HND-10 a handler that waits for another one does not count", situation: plan.Situation{Reason: cause.Update, Plan: plan.Plan{Blocked: []string{"b"}}},
			selected: []string{"a", "b"}, records: map[string]progress.Record{"a": in(time.Minute)}, delay: time.Minute, left: true,
		},
		{
			name: "DLY-11 all handlers have finished, which is not stored yet", situation: plan.Situation{Reason: cause.Update},
			selected: []string{"a"}, records: map[string]progress.Record{"a": done},
		},
		{
			name: "LIFE-01 the lifecycle has refused the handlers that are due", situation: plan.Situation{Reason: cause.Update, Plan: plan.Plan{Refused: true}},
			selected: []string{"a"}, delay: time.Second, left: true,
		},
		{
			name: "LIFE-01 the lifecycle has refused handlers, and no other one is due", situation: plan.Situation{Reason: cause.Update, Plan: plan.Plan{Refused: true}},
			selected: []string{"a"}, records: map[string]progress.Record{"a": in(time.Millisecond)}, delay: time.Millisecond, left: true,
		},
		{
			name: "LIFE-01 the lifecycle has refused handlers, and all have finished since", situation: plan.Situation{Reason: cause.Update, Plan: plan.Plan{Refused: true}},
			selected: []string{"a"}, records: map[string]progress.Record{"a": done},
		},
		{
			name: "LIFE-03 the lifecycle has left handlers for the next reconcile", situation: plan.Situation{Reason: cause.Update, Plan: plan.Plan{Limited: true}},
			selected: []string{"a"}, left: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			delay, left := plan.Schedule(test.situation, stateOf(t, test.records, test.selected...), now)
			if delay != test.delay || left != test.left {
				t.Errorf("Schedule = %v, %t, want %v, %t", delay, left, test.delay, test.left)
			}
		})
	}
}
