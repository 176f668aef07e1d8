// Package layering checks the imports between the packages of the library. The file .golangci.yml
// contains the same rules for depguard. This package checks them without the linter.
//
// The rules apply only to code outside of tests. Tests may import any package.
package layering

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/kopf-runtime/kopf-runtime"
	root   = "../.." // root of the module, relative to this package
)

// levels has a line for each package under pkg/ and internal/: a package may import only lower levels. Add a line
// here and in .golangci.yml for each new package.
var levels = map[string]int{
	// The top level, for the tests of users: it may import everything.
	"pkg/kopf/kopftest": 9,

	// The facade.
	"pkg/kopf": 8,

	// Between the facade and the tests of users.
	"internal/testhook": 7,

	// For the tests of users: plans of faults.
	"internal/explore": 2,

	"internal/engine": 6,

	// The matchers in the options of the facade.
	"pkg/kopf/filter": 4,

	// The phases of the engine. A plan uses causes and handlers.
	"internal/plan":   5,
	"internal/commit": 5,
	"internal/cause":  4,
	"internal/invoke": 4,

	// Tools of the phases.
	"internal/essence":       3,
	"internal/indexing":      3,
	"internal/match":         3,
	"internal/objectstate":   3,
	"internal/patch":         3,
	"internal/eventrecorder": 3,
	"internal/registry":      3,

	// The health of informers, used by the facade.
	"internal/watchcheck": 3,

	// Usable without the engine, in a hand-written reconciler.
	"pkg/daemons":  2,
	"pkg/peering":  2,
	"pkg/webhooks": 2,

	// For the tests of users.
	"pkg/conditions/conditionstest": 2,

	// Leaves.
	"internal/apiserver": 1,
	"internal/fencing":   1,
	"internal/metrics":   1,
	"pkg/children":       1,
	"pkg/conditions":     1,
	"pkg/diff":           1,
	"pkg/peering/v1":     1,
	"pkg/progress":       1,

	// Below the leaves: explanations of errors and missing permissions.
	"internal/rbac":       0,
	"internal/validation": 0,

	// Not part of the library.
	controlPlane: 0,

	// Also below.
	"internal/reaper": -1,
}

const (
	top             = 9
	controlPlane    = "internal/controlplane"
	simulatedServer = "internal/apiserver"
)

// A rule forbids some imports. Packages of this module are named by their folders, all others by their paths.
type rule struct {
	says    string
	forbids func(from, to string) bool
}

var rules = []rule{
	{
		"an import points to a lower level, packages of one level do not know each other",
		func(from, to string) bool {
			above, leveled := levels[from]
			below, known := levels[to]
			return leveled && known && below >= above
		},
	},
	{
		"progress, daemons, peering and webhooks are useful alone, and daemons → progress is the one edge among them",
		func(from, to string) bool {
			return to == "pkg/progress" && (from == "pkg/peering" || from == "pkg/webhooks") ||
				to == "pkg/peering/v1" && (from == "pkg/daemons" || from == "pkg/webhooks")
		},
	},
	{
		"the control plane is for tests, hack/ and test/",
		func(from, to string) bool {
			return to == controlPlane && (shipped(from) || under(from, "examples"))
		},
	},
	{
		"the library does not import what is built on it or around it",
		func(from, to string) bool {
			return shipped(from) && (under(to, "examples") || under(to, "hack") || under(to, "test"))
		},
	},
	{
		"the simulated API server is for tests, hack/ and test/, and for the test kit of users",
		func(from, to string) bool {
			return to == simulatedServer && from != "pkg/kopf/kopftest" && (shipped(from) || under(from, "examples"))
		},
	},
	{
		"an example uses what its readers can use, that is pkg/",
		func(from, to string) bool {
			return under(from, "examples") && under(to, "internal")
		},
	},
	{
		"a calculation takes no context",
		func(from, to string) bool {
			calculations := []string{"internal/cause", "internal/essence", "internal/match", "pkg/diff"}
			return to == "context" && slices.Contains(calculations, from)
		},
	},
	{
		"a calculation over values takes neither a client nor its objects",
		func(from, to string) bool {
			return (from == "internal/cause" || from == "pkg/diff") &&
				under(to, "sigs.k8s.io/controller-runtime/pkg/client")
		},
	},
}

func shipped(name string) bool { return under(name, "pkg") || under(name, "internal") }

func under(name, folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }

// A node is a package of this module, as go list returns it.
type node struct {
	ImportPath string
	Doc        string   // first sentence of the package comment
	GoFiles    []string // without tests
	Imports    []string // imports of GoFiles
	Error      *struct{ Err string }
}

func (n node) name() string { return short(n.ImportPath) }

func short(path string) string { return strings.TrimPrefix(path, module+"/") }

// check returns a sentence for each violation in the graph, in a stable order.
func check(graph []node) []string {
	var violations []string
	complain := func(format string, args ...any) { violations = append(violations, fmt.Sprintf(format, args...)) }
	for _, n := range graph {
		from := n.name()
		if n.Error != nil {
			complain("%s cannot be read: %s", from, n.Error.Err)
		}
		if shipped(from) {
			if _, known := levels[from]; !known {
				complain("%s has no level: give it one in test/layering/layering_test.go, and a rule in .golangci.yml", from)
			}
			if !slices.Contains(n.GoFiles, "doc.go") || n.Doc == "" {
				complain("%s has no doc.go with a package comment: say there what the package is for", from)
			}
		}
		for _, path := range n.Imports {
			to := short(path)
			for _, r := range rules {
				if r.forbids(from, to) {
					complain("%s imports %s, but %s", describe(from), describe(to), r.says)
				}
			}
		}
	}
	slices.Sort(violations)
	return slices.Compact(violations)
}

func describe(name string) string {
	if level, known := levels[name]; known && level > 0 {
		return fmt.Sprintf("%s (level %d)", name, level)
	}
	return name
}

func TestLayers(t *testing.T) {
	graph := list(t)
	if !slices.ContainsFunc(graph, func(n node) bool { return shipped(n.name()) }) {
		t.Fatalf("go list found %d packages, none of them under pkg/ or internal/: nothing was checked", len(graph))
	}
	for _, violation := range check(graph) {
		t.Error(violation)
	}
}

// list runs the go command, which handles build constraints and modules.
func list(t *testing.T) []node {
	t.Helper()
	watch(t)
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Doc,GoFiles,Imports,Error", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("go list: %v\n%s", err, exit.Stderr)
	} else if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var graph []node
	for stream := json.NewDecoder(strings.NewReader(string(out))); ; {
		var n node
		if err := stream.Decode(&n); errors.Is(err, io.EOF) {
			return graph
		} else if err != nil {
			t.Fatalf("decoding the output of go list: %v", err)
		}
		graph = append(graph, n)
	}
}

// watch reads the state of each source file. The go command caches test results by the files that the test itself
// reads, but not by the files that its child processes read.
func watch(t *testing.T) {
	t.Helper()
	for _, folder := range []string{"pkg", "internal", "examples"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			_, err = os.Stat(path)
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// Each package must have a rule in .golangci.yml, because the linter does not check folders without a rule.
func TestLinterKnowsEveryPackage(t *testing.T) {
	config, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(levels)) {
		if levels[name] < top && !strings.Contains(string(config), "**/"+name+"/") {
			t.Errorf("%s has no depguard rule in .golangci.yml", name)
		}
	}
}

// check must detect violations.
func TestChecker_DetectsViolations(t *testing.T) {
	fired := map[string]bool{}
	for _, c := range []struct {
		name    string
		from    string
		imports []string
		want    string // part of the only violation; "" means there is none
	}{
		{"a leaf on the host's packages", "pkg/progress", []string{"context", "sigs.k8s.io/controller-runtime/pkg/client"}, ""},
		{"a leaf on a leaf", "pkg/progress", ours("pkg/diff"),
			"pkg/progress (level 1) imports pkg/diff (level 1), but an import points to a lower level"},
		{"a leaf on the facade", "pkg/diff", ours("pkg/kopf"), "an import points to a lower level"},
		{"daemons on progress", "pkg/daemons", ours("pkg/progress", "internal/metrics"), ""},
		{"peering on progress", "pkg/peering", ours("pkg/progress"), "daemons → progress is the one edge"},
		{"webhooks on progress", "pkg/webhooks", ours("pkg/progress"), "daemons → progress is the one edge"},
		{"webhooks on the types of peering", "pkg/webhooks", ours("pkg/peering/v1"), "daemons → progress is the one edge"},
		{"webhooks on peering", "pkg/webhooks", ours("pkg/peering"), "do not know each other"},
		{"peering on its types", "pkg/peering", ours("pkg/peering/v1"), ""},
		{"the types on peering", "pkg/peering/v1", ours("pkg/peering"), "an import points to a lower level"},
		{"daemons on the engine", "pkg/daemons", ours("internal/engine"), "an import points to a lower level"},
		{"a step on levels 1 and 2", "internal/invoke", ours("pkg/progress", "pkg/daemons", "pkg/conditions"), ""},
		{"a step on a step", "internal/match", ours("internal/registry"),
			"internal/match (level 3) imports internal/registry (level 3), but"},
		{"a step on the engine", "internal/patch", ours("internal/engine"), "an import points to a lower level"},
		{"the engine on the steps", "internal/engine", ours("internal/match", "pkg/diff", "pkg/conditions"), ""},
		{"the engine on the facade", "internal/engine", ours("pkg/kopf"), "an import points to a lower level"},
		{"the facade on everything", "pkg/kopf", ours("internal/engine", "internal/registry", "pkg/webhooks", "pkg/diff"), ""},
		{"the matchers on the tests of values", "pkg/kopf/filter", ours("internal/match", "pkg/diff"), ""},
		{"the matchers on the facade", "pkg/kopf/filter", ours("pkg/kopf"), "an import points to a lower level"},
		{"the facade on the harness", "pkg/kopf", ours("pkg/kopf/kopftest"), "an import points to a lower level"},
		{"the harness on the facade", "pkg/kopf/kopftest", ours("pkg/kopf", "internal/engine"), ""},
		{"the engine on the control plane", "internal/engine", ours(controlPlane), "the control plane is for tests"},
		{"the control plane on the library", controlPlane, ours("pkg/progress"), "an import points to a lower level"},
		{"a command on the control plane", "hack/example", ours(controlPlane, "pkg/kopf"), ""},
		{"the suites on everything", "test/e2e", ours(controlPlane, "pkg/kopf", "internal/engine"), ""},
		{"the simulations on everything", "test/simulation/scenario", ours("pkg/kopf", "internal/essence", "test/e2e/api/v1"), ""},
		{"the simulated server on the library", simulatedServer, ours("pkg/progress"), "packages of one level do not know each other"},
		{"the library on the simulated server", "pkg/kopf", ours(simulatedServer), "for the test kit of users"},
		{"the test kit on the simulated server", "pkg/kopf/kopftest", ours(simulatedServer), ""},
		{"the simulations on the simulated server", "test/simulation/scenario", ours(simulatedServer), ""},
		{"the library on an example", "pkg/kopf", ours("examples/01-minimal/api"), "built on it or around it"},
		{"an example on the facade", "examples/01-minimal", ours("pkg/kopf", "examples/01-minimal/api"), ""},
		{"an example on the insides", "examples/01-minimal", ours("internal/match"), "an example uses what its readers can use"},
		{"a calculation with a context", "internal/essence", []string{"context"},
			"internal/essence (level 3) imports context, but a calculation takes no context"},
		{"a calculation on objects", "internal/match", []string{"sigs.k8s.io/controller-runtime/pkg/client"}, ""},
		{"a calculation over values on objects", "internal/cause", []string{"sigs.k8s.io/controller-runtime/pkg/client"},
			"neither a client nor its objects"},
		{"a package without a level", "internal/utils", nil, "internal/utils has no level"},
		{"a package below one that has a level", "pkg/kopf/helpers", nil, "pkg/kopf/helpers has no level"},
	} {
		violations := check([]node{{
			ImportPath: module + "/" + c.from,
			Doc:        "Package x is documented.",
			GoFiles:    []string{"doc.go", "x.go"},
			Imports:    c.imports,
		}})
		for _, r := range rules {
			fired[r.says] = fired[r.says] || strings.Contains(strings.Join(violations, "\n"), r.says)
		}
		t.Run(c.name, func(t *testing.T) {
			switch {
			case c.want == "" && len(violations) > 0:
				t.Errorf("violations = %q, want none", violations)
			case c.want != "" && (len(violations) != 1 || !strings.Contains(violations[0], c.want)):
				t.Errorf("violations = %q, want one that contains %q", violations, c.want)
			}
		})
	}
	for _, r := range rules {
		if !fired[r.says] {
			t.Errorf("no test case violates this rule: %s", r.says)
		}
	}

	t.Run("a package without doc.go", func(t *testing.T) {
		violations := check([]node{{ImportPath: module + "/pkg/kopf", Doc: "Package kopf is documented.", GoFiles: []string{"kopf.go"}}})
		if len(violations) != 1 || !strings.Contains(violations[0], "pkg/kopf has no doc.go") {
			t.Errorf("got %q", violations)
		}
	})
	t.Run("a doc.go that says nothing", func(t *testing.T) {
		violations := check([]node{{ImportPath: module + "/pkg/kopf", GoFiles: []string{"doc.go"}}})
		if len(violations) != 1 || !strings.Contains(violations[0], "pkg/kopf has no doc.go") {
			t.Errorf("got %q", violations)
		}
	})
	t.Run("a package that does not parse", func(t *testing.T) {
		violations := check([]node{{ImportPath: module + "/hack/example", Error: &struct{ Err string }{"expected 'package'"}}})
		if len(violations) != 1 || !strings.Contains(violations[0], "hack/example cannot be read: expected 'package'") {
			t.Errorf("got %q", violations)
		}
	})
}

func ours(names ...string) []string {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = module + "/" + name
	}
	return paths
}
