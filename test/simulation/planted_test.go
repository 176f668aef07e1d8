package simulation

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/test/simulation/scenario"
)

const root = "../.." // root folder of the module

// edit replaces a unique text in a file of the module.
type edit struct{ file, old, new string }

// plantedBug is a change of the source code that the simulations must detect.
type plantedBug struct {
	name  string
	edits []edit
	shows scenario.Property
}

// bugs lists the planted bugs. Each bug breaks one guarantee. When the quoted source code changes, update the entry of the bug.
var bugs = []plantedBug{
	{
		name:  "B-01 an unpinned baseline",
		shows: scenario.NeverLost,
		edits: []edit{{"internal/cause/detect.go", "if in.Pin != nil {", "if false && in.Pin != nil {"}},
	},
	{
		name:  "B-10 no guard for our own writes",
		shows: scenario.NeverStale,
		edits: []edit{{"internal/engine/observe.go", "if !e.isStale(r.draft.Base(), r.known) {", "if true || !e.isStale(r.draft.Base(), r.known) {"}},
	},
	{
		name:  "B-11 a delay that stands in the queue only",
		shows: scenario.KeepsBackoff,
		edits: []edit{
			{"internal/engine/state.go", "\tmatching  matching\n", "\tqueued   time.Duration\n\tmatching matching\n"},
			{"internal/engine/invoke.go", "r.session.Records.RecordOutcome(id, p.Outcome, ended)",
				"r.queued = max(r.queued, p.Outcome.Delay)\n\tp.Outcome.Delay = 0\n\tr.session.Records.RecordOutcome(id, p.Outcome, ended)"},
			{"internal/engine/plan.go", "return plan.Schedule(", "defer func() { delay = max(delay, r.queued) }()\n\treturn plan.Schedule("},
		},
	},
	{
		name:  "B-03 a due time that is not computed again",
		shows: scenario.Settles,
		edits: []edit{{"internal/engine/plan.go", "return plan.Schedule(",
			"if r.session.Cause.Reason.HasHandlers() && len(r.calls.called) == 0 {\n\t\treturn 0, false\n\t}\n\treturn plan.Schedule("}},
	},
}

var planted = flag.Bool("planted", false, "build and run the simulations with each planted bug, which takes some minutes")

func TestSimulations_FindPlantedBugs(t *testing.T) {
	for _, bug := range bugs {
		t.Run(bug.name, func(t *testing.T) {
			findBug(t, bug.edits, string(bug.shows)+": ", "-test.run=^TestSimulations$", "-simulations=60")
		})
	}
}

// findBug checks that a planted bug fits the code. With the flag -planted, and without the race detector, it also builds the simulations with the bug, and runs them
// with the arguments until a line of their output contains the text of the violation. It does not wait for the end of the run, because a bug can cause scenarios with many thousand writes.
func findBug(t *testing.T, edits []edit, violation string, args ...string) {
	t.Helper()
	replaced := overlay(t, edits)
	if !*planted || raceEnabled {
		return
	}
	binary := filepath.Join(t.TempDir(), "simulation.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-o", binary, "-overlay", replaced, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the bug does not compile: %v\n%s", err, out)
	}
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	run := exec.CommandContext(ctx, binary, append(args, "-test.v", "-test.timeout=10m")...)
	output, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	var found bool
	var start strings.Builder // of the output
	for lines := bufio.NewReader(output); !found; {
		line, err := lines.ReadString('\n')
		found = strings.Contains(line, violation)
		if start.Len() < 2000 {
			start.WriteString(line)
		}
		if err != nil {
			break
		}
	}
	kill()
	err = run.Wait()
	if !found {
		t.Errorf("the simulations ended with %v, want the violation %q in the output:\n%s", err, violation, start.String())
	}
}

// overlay writes the edited files and an overlay file for the go command. It returns the path of the overlay file.
func overlay(t *testing.T, edits []edit) string {
	t.Helper()
	folder := t.TempDir()
	replaced := map[string]string{}
	for _, e := range edits {
		path, err := filepath.Abs(filepath.Join(root, e.file))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("update the entry of the planted bug: %v", err)
		}
		if n := strings.Count(string(text), e.old); n != 1 {
			t.Fatalf("%s contains %q %d times, want 1: update the entry of the planted bug", e.file, e.old, n)
		}
		if replaced[path] != "" {
			t.Fatalf("%s has several edits, want 1: combine them", e.file)
		}
		replaced[path] = filepath.Join(folder, filepath.Base(e.file))
		if err := os.WriteFile(replaced[path], []byte(strings.Replace(string(text), e.old, e.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
