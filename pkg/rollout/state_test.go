package rollout_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
)

// The rollout of a change of the schema has numbers, but no revisions.
func TestHalt_WithoutRevisions(t *testing.T) {
	c, key := kopftest.Memory(t).Client, client.ObjectKey{Namespace: "default", Name: rollout.DefaultName}
	if err := rollout.Halt(t.Context(), c, key, "databases.example.com", "jane", "wait"); err == nil || !strings.Contains(err.Error(), "there is no rollout of databases.example.com") {
		t.Errorf("without a state, got error %v", err)
	}
	begin := func(s *rollout.State) error {
		s.Progress = map[string]rollout.Progress{"": {Total: 2, Waiting: 2}}
		return nil
	}
	if err := rollout.Change(t.Context(), c, key, "databases.example.com", begin); err != nil {
		t.Fatal(err)
	}
	if err := rollout.Halt(t.Context(), c, key, "databases.example.com", "jane", "wait"); err != nil {
		t.Fatal(err)
	}
	states, err := rollout.Load(t.Context(), c, key)
	if err != nil {
		t.Fatal(err)
	}
	if stop := states["databases.example.com"].Halted; stop == nil || stop.By != "jane" {
		t.Errorf("halted = %+v, want by jane", stop)
	}
}
