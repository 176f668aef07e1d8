package kinds

import "testing"

// An operator that ends before its first discovery has succeeded waits for nothing any more: its health checks ignore the functions of OnCleanup.
func TestRuntime_EndStart(t *testing.T) {
	r := NewRuntime(nil)
	r.SetUnsynced(2)
	r.discovering.Store(true)
	if len(r.NotSynced()) != 1 {
		t.Error("a starting operator is ready")
	}
	if r.EndStart(); len(r.NotSynced()) > 0 {
		t.Errorf("an ended operator waits: %v", r.NotSynced())
	}
}
