package examples

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// explored lists for each numbered example whether its tests call Explore and Walk of package kopftest. It has a reason
// for each missing call.
var explored = map[string]struct {
	explore, walk bool
	reason        string // required if explore or walk is false
}{
	"01-minimal":        {explore: true, walk: true},
	"02-children":       {explore: true, walk: true},
	"03-exceptions":     {explore: true, walk: true},
	"04-events":         {explore: true, walk: true},
	"05-handlers":       {explore: true, walk: true},
	"06-peering":        {reason: "The example needs two operators, and Explore runs only one."},
	"07-subhandlers":    {explore: true, walk: true},
	"08-events":         {reason: "The example has only event handlers and writes nothing, so faults have no effect."},
	"09-testing":        {explore: true, walk: true},
	"10-builtins":       {explore: true, reason: "Walk requires a CRD, and the kinds are built in."},
	"11-filtering":      {explore: true, walk: true},
	"12-embedded":       {explore: true, walk: true},
	"13-hooks":          {explore: true, walk: true},
	"14-daemons":        {explore: true, walk: true},
	"15-timers":         {reason: "After each plan, Explore observes the operator for an hour, in which the timers write twice a second. For Walk, the specs have no effect."},
	"16-indexing":       {explore: true, walk: true},
	"17-admission":      {explore: true, reason: "Walk would use specs that the admission handlers deny, because an in-memory cluster does not call them."},
	"18-conditions":     {explore: true, reason: "Walk uses random store names, and the handler connect retries until the store exists."},
	"19-kinds":          {explore: true, reason: "Walk requires a Go type of the kind, and the operator has none."},
	"20-namespaces":     {explore: true, reason: "Walk requires a CRD, and the kind is built in."},
	"21-related":        {explore: true, reason: "Walk requires a CRD, and the kinds are built in."},
	"22-children-set":   {explore: true, walk: true},
	"23-logs":           {reason: "The example only reads logs, and the clusters of Explore and Walk have none."},
	"24-cluster-events": {explore: true, walk: true},
	"99-all-at-once":    {explore: true, walk: true},
	"25-sharded":        {reason: "The example needs a ControllerRing and a sharder, and Explore has neither."},
	"26-upgrade":        {explore: true, reason: "Walk uses random engines, and version 2 fails for engines without a cipher."},
}

// The table must list each numbered example and agree with its tests.
func TestExploredTable_AgreesWithTests(t *testing.T) {
	folders, err := filepath.Glob("[0-9][0-9]-*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("got %d folders and error %v, want at least one folder", len(folders), err)
	}
	for _, folder := range folders {
		entry, listed := explored[folder]
		if !listed {
			t.Errorf("%s is missing in the table", folder)
			continue
		}
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var called []string
		for _, file := range files {
			called = append(called, calledByTests(t, file, read(t, file))...)
		}
		for name, want := range map[string]bool{"Explore": entry.explore, "Walk": entry.walk} {
			if got := slices.Contains(called, name); got != want {
				t.Errorf("%s: calls of kopftest.%s in tests = %t, want %t as in the table", folder, name, got, want)
			}
		}
		if complete := entry.explore && entry.walk; complete != (entry.reason == "") {
			t.Errorf("%s: reason = %q, want a reason only if explore or walk is false", folder, entry.reason)
		}
	}
	for folder := range explored {
		if _, err := os.Stat(folder); err != nil {
			t.Errorf("the table has an example that does not exist: %v", err)
		}
	}
}

// calledByTests returns the functions of package kopftest that the tests in a file call. It ignores tests that can skip themselves.
func calledByTests(t *testing.T, file, source string) (names []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, declaration := range parsed.Decls {
		test, isFunc := declaration.(*ast.FuncDecl)
		if !isFunc || test.Recv != nil || !strings.HasPrefix(test.Name.Name, "Test") {
			continue
		}
		var called []string
		skips := false
		ast.Inspect(test, func(node ast.Node) bool {
			call, isCall := node.(*ast.CallExpr)
			if !isCall {
				return true
			}
			function, isSelector := call.Fun.(*ast.SelectorExpr)
			if !isSelector {
				return true
			}
			skips = skips || strings.HasPrefix(function.Sel.Name, "Skip")
			if pkg, isName := function.X.(*ast.Ident); isName && pkg.Name == "kopftest" {
				called = append(called, function.Sel.Name)
			}
			return true
		})
		if !skips {
			names = append(names, called...)
		}
	}
	return names
}

// calledByTests must ignore comments, helpers, calls of other packages, and tests that can skip themselves.
func TestCalledByTests_IgnoresOtherCalls(t *testing.T) {
	got := calledByTests(t, "some_test.go", `package main

import "testing"

// TestComment calls kopftest.Explore(t, trial).
func TestComment(t *testing.T) { other.Explore(t, trial) }

func helper(t *testing.T) { kopftest.Explore(t, trial) }

func TestSkipped(t *testing.T) {
	t.SkipNow()
	kopftest.Explore(t, trial)
}

func TestWalk(t *testing.T) {
	t.Run("all", func(t *testing.T) { kopftest.Walk(t, "config/crd", trial, 20) })
}
`)
	if diff := cmp.Diff([]string{"Walk"}, got); diff != "" {
		t.Errorf("called functions (-want +got):\n%s", diff)
	}
}
