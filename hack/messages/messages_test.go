package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const example = `package example

const missing = "the kind has no field"

func (r *runner) title() string {
	if r.timer {
		return "Timer"
	}
	return "Daemon"
}

func (r *runner) run(log logr.Logger, err error, name string) error {
	log.Info("Started", "handler", name, "attempt", 1)
	log.V(1).Info("Calling the handler")
	report := func(message string) { log.Error(err, message, "stack", name) }
	report("Handler failed")
	text := r.title() + " failed permanently"
	log.Error(err, text)
	quiet := log.V(4)
	quiet.Info("Handler not selected", "why", name)
	if name == "" {
		return errors.New(missing + "; add it to the schema")
	}
	return fmt.Errorf("writing %s: %w", name, fmt.Errorf("%s: %w", name, err))
}

func (e *conflictError) Error() string { return fmt.Sprintf("another client has changed %q", e.path) }
`

func collectFrom(t *testing.T, source string) *collection {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "example.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	var all collection
	if err := all.addPackage(dir); err != nil {
		t.Fatal(err)
	}
	return &all
}

func TestAddPackage(t *testing.T) {
	all := collectFrom(t, example)
	if len(all.problems) > 0 {
		t.Fatal(all.problems)
	}
	got := map[string]string{}
	for text, m := range all.logs {
		got[text] = strings.Join(slices.Sorted(maps.Keys(m.levels)), ",") + ": " + strings.Join(m.keys, ",")
	}
	want := map[string]string{
		"Started":                   "info: handler,attempt",
		"Calling the handler":       "debug 1: ",
		"Handler failed":            "error: error,stack",
		"Daemon failed permanently": "error: error",
		"Timer failed permanently":  "error: error",
		"Handler not selected":      "debug 4: why",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log messages (-want +got):\n%s", diff)
	}
	wantErrors := []string{"another client has changed …", "the kind has no field; add it to the schema"}
	if diff := cmp.Diff(wantErrors, slices.Sorted(maps.Keys(all.errors))); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestAddPackage_MessageIsNotConstant(t *testing.T) {
	all := collectFrom(t, "package example\n\nfunc report(log logr.Logger, e event) { log.Info(e.text) }\n")
	if len(all.problems) != 1 || !strings.Contains(all.problems[0].Error(), "example.go:3") {
		t.Errorf("got problems %v, want one for the message", all.problems)
	}
}

func TestCheckAdvice(t *testing.T) {
	logs := map[string]*logMessage{
		"Handler failed": {levels: map[string]bool{"error": true}},
		"Started":        {levels: map[string]bool{"info": true}},
	}
	for name, test := range map[string]struct {
		advice map[string]string
		want   string
	}{
		"complete": {map[string]string{"Handler failed": "fix it"}, ""},
		"missing":  {nil, `add advice for the message "Handler failed"`},
		"stale":    {map[string]string{"Handler failed": "fix it", "Old": "x"}, `no code logs the message "Old"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkAdvice(logs, test.advice)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("checkAdvice returned %v, want %q", err, test.want)
			}
		})
	}
}

func TestCell_EscapesTables(t *testing.T) {
	if got, want := code("a|b\nc `d`"), "`` a\\|b c `d` ``"; got != want {
		t.Errorf("code = %q, want %q", got, want)
	}
}
