package engine

import "testing"

func TestCountRun(t *testing.T) {
	var e Engine
	first, second := e.countRun("1"), e.countRun("1")
	first()
	if e.background.runs.Get("1") != 1 || e.background.runs.Get("2") != 0 || !e.HasRuns() {
		t.Errorf("runs = %d and %d, want 1 and 0", e.background.runs.Get("1"), e.background.runs.Get("2"))
	}
	if second(); e.HasRuns() {
		t.Errorf("runs = %d, want none", e.background.runs.Get("1"))
	}
}
