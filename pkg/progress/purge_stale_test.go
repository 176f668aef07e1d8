package progress_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// maxTime is later than all delays.
var maxTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func TestPurgeStale_KeepsOnlyDelays(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	store, obj := progress.Annotations(""), &corev1.ConfigMap{}
	for id, record := range map[string]progress.Record{
		"succeeded": {Purpose: "update", Success: true},
		"failed":    {Purpose: "update", Failure: true},
		"fresh":     {Purpose: "update"},
		"overdue":   {Purpose: "update", Retries: 1, Delayed: at.Add(-time.Second)},
		"delayed":   {Purpose: "update", Retries: 1, Delayed: at.Add(time.Second)},
	} {
		if err := store.Store(obj, id, record); err != nil {
			t.Fatal(err)
		}
	}
	ids := []string{"succeeded", "failed", "fresh", "overdue", "delayed"}
	state, err := progress.Load(store, obj, ids)
	if err != nil || !state.HasStale(at) {
		t.Fatalf("HasStale = %v, error = %v, want true and no error", state.HasStale(at), err)
	}
	if err := state.PurgeStale(store, obj, at); err != nil {
		t.Fatal(err)
	}
	left := slices.DeleteFunc(ids, func(id string) bool {
		record, err := store.Fetch(obj, id)
		return record == nil || err != nil
	})
	if !slices.Equal(left, []string{"delayed"}) {
		t.Errorf("B-02 B-11 remaining records = %q, want only the record with a pending delay", left)
	}
	if again, _ := progress.Load(store, obj, left); again.HasStale(at) || !again.HasStale(maxTime) {
		t.Error("HasStale must be true only after the delay has ended")
	}
}
