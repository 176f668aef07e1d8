// Package layering checks the imports between the packages of the library.
//
// The rules apply only to code outside of tests. Tests may import any package.
package layering

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// levels contains the level of each package under pkg/ and internal/. A package may import only lower levels. Add a line
// here for each new package, except for those under internal/parts that have the level of all parts.
var levels = map[string]int{
	// The top level contains the test kit for users. It may import all other packages.
	"pkg/kopf/kopftest": 12,

	// This package has daemons for handlers of kopf.

	// This package is the public API.
	"pkg/kopf": 11,

	// This package connects kopf with kopftest.
	"internal/testhook": 8,

	// This package runs the kinds of an operator.
	"internal/kinds": 10,

	// This package checks declarations.
	"internal/declare": 8,

	// This package runs an operator as a list of parts.
	"internal/operator": 8,

	// This package makes plans of faults for kopftest.
	"internal/explore": 2,

	"internal/engine": 7,

	// This package runs the daemons and timers of the engine.
	"internal/parts/background": 6,

	// The engine and kopf fill the status page.
	"internal/parts/statuspage": 5,

	// This package has the matchers for the options of kopf.
	"pkg/kopf/filter": 4,

	// This package prevents starvation in the queue of the engine.
	"internal/parts/promotion": 4,

	// This package keeps the caches of the engine small.
	"internal/parts/leancache": 4,

	// This package detects caches that are older than the process for the engine.
	"internal/parts/epoch": 4,

	// These packages are the phases of the engine. A plan uses causes and handlers.
	"internal/plan":   5,
	"internal/commit": 5,
	"internal/cause":  4,
	"internal/invoke": 4,

	// This package finds handlers of the engine that cause their own calls.
	"internal/parts/loopguard": 5,

	// The phases use these packages.
	"internal/essence":             3,
	"internal/match":               3,
	"internal/objectstate":         3,
	"internal/patch":               3,
	"internal/parts/eventrecorder": 3,

	// This package triggers reconcile handlers for the engine.
	"internal/parts/tracking": 3,

	// This package checks the health of informers for kopf.
	"internal/parts/watchcheck": 3,

	// This package watches Kubernetes Events for kopf.
	"internal/parts/eventwatch": 3,

	// This package selects and reads kinds at run time for kopf.
	"internal/parts/watching": 3,

	// Any other reconciler can use these packages without the engine.
	"pkg/daemons":  2,
	"pkg/peering":  2,
	"pkg/webhooks": 2,

	// This package has matchers for tests of users.
	"pkg/conditions/conditionstest": 2,
	"pkg/progress/storetest":        2,

	// These packages import only packages of level 0 and below.
	"internal/apiserver": 1,
	"internal/metrics":   1,
	"pkg/children":       1,
	"pkg/clusterevents":  1,
	"pkg/conditions":     1,
	"pkg/diff":           1,
	"pkg/peering/v1":     1,
	"pkg/progress":       1,
	"pkg/sharding":       1,

	// These packages explain errors, missing permissions, and what the operator does.
	"pkg/events":          0,
	"pkg/explain":         0,
	"pkg/rights":          0,
	"internal/rbac":       0,
	"internal/validation": 0,

	// This package separates the annotations of users from those of operators.
	"internal/annotations": 0,

	// This package calls functions of users, and shortens the texts of errors.
	"internal/guard": 0,

	// This package has the types of previews.
	"pkg/preview": 0,

	// This package keeps caches working although some objects can't be decoded.
	"internal/parts/decoding": 1,

	// This package delays the writes of the engine after a suspension of the process.
	"internal/parts/suspension": 1,

	// This package has the annotations that request calls of handlers.
	"internal/parts/retry": 1,

	// This package has the notes about revisions of handlers.
	"internal/parts/revision": 1,

	// This package has the options and the state of rollouts.
	"pkg/rollout": 1,

	// This package selects the objects of a shard.
	"internal/parts/shards": 0,

	// This package applies the schemas of custom kinds.
	"internal/crdschema": 0,

	// This package encodes JSON forms.
	"internal/jsonform": 0,

	// This package measures times that include suspensions.
	"internal/clocks": 0,

	// The control plane for tests is not part of the library. The test kit needs only its reaper.
	controlPlane: 0,
}

const (
	partLevel       = 9 // of the parts of an operator, which therefore do not know each other
	controlPlane    = "internal/controlplane"
	simulatedServer = "internal/apiserver"
)

// levelOf returns the level of a package under pkg/ or internal/. A package under internal/parts without a listed level is
// a part that an operator runs. The others are features that the engine or kopf use.
func levelOf(name string) (level int, known bool) {
	if level, known = levels[name]; known {
		return level, true
	}
	if under(name, "internal/parts") {
		return partLevel, true
	}
	return 0, false
}

// A rule forbids some imports. Packages of this module are named by their folders, all others by their paths.
type rule struct {
	says    string
	forbids func(from, to string) bool
}

var rules = []rule{
	{
		"a package must import only packages of lower levels",
		func(from, to string) bool {
			above, leveled := levelOf(from)
			below, known := levelOf(to)
			return leveled && known && below >= above
		},
	},
	{
		"peering and webhooks must not import progress; daemons and webhooks must not import the types of peering",
		func(from, to string) bool {
			return to == "pkg/progress" && (from == "pkg/peering" || from == "pkg/webhooks") ||
				to == "pkg/peering/v1" && (from == "pkg/daemons" || from == "pkg/webhooks")
		},
	},
	{
		"only tests, hack/, test/ and kopftest may import the control plane",
		func(from, to string) bool {
			return to == controlPlane && from != "pkg/kopf/kopftest" && (shipped(from) || under(from, "examples"))
		},
	},
	{
		"the library must not import examples/, hack/ or test/",
		func(from, to string) bool {
			return shipped(from) && (under(to, "examples") || under(to, "hack") || under(to, "test"))
		},
	},
	{
		"only tests, hack/, test/ and kopftest may import the simulated API server",
		func(from, to string) bool {
			return to == simulatedServer && from != "pkg/kopf/kopftest" && (shipped(from) || under(from, "examples"))
		},
	},
	{
		"an example must not import internal/, because users of the library cannot",
		func(from, to string) bool {
			return under(from, "examples") && under(to, "internal")
		},
	},
	{
		"a package of pure functions must not import context",
		func(from, to string) bool {
			pure := []string{"internal/cause", "internal/declare", "internal/essence", "internal/match", "pkg/diff"}
			return to == "context" && slices.Contains(pure, from)
		},
	},
	{
		"a package of pure functions on values must not import the client",
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
	GoFiles    []string // source files without tests
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
			if _, known := levelOf(from); !known {
				complain("%s has no level: add a level in test/layering/layering_test.go", from)
			}
			if !slices.Contains(n.GoFiles, "doc.go") || n.Doc == "" {
				complain("%s has no doc.go with a package comment: describe the purpose of the package there", from)
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
	if level, known := levelOf(name); known && level > 0 {
		return fmt.Sprintf("%s (level %d)", name, level)
	}
	return name
}

func TestLayers_HaveNoViolations(t *testing.T) {
	graph := list(t)
	if !slices.ContainsFunc(graph, func(n node) bool { return shipped(n.name()) }) {
		t.Fatalf("go list found %d packages, none of them under pkg/ or internal/: nothing was checked", len(graph))
	}
	for _, violation := range check(graph) {
		t.Error(violation)
	}
}

// Only package guard recovers from panics, so that each of them becomes an error with its stack.
func TestRecover_OnlyInGuard(t *testing.T) {
	watch(t)
	found := false
	for _, folder := range []string{"pkg", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			if calls := strings.Contains(string(source), "recover()"); calls && strings.HasPrefix(path, filepath.Join(root, "internal/guard")) {
				found = true
			} else if calls {
				t.Errorf("%s calls recover: use package guard", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !found {
		t.Error("package guard does not call recover: nothing was checked")
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

// check must detect violations.
func TestChecker_DetectsViolations(t *testing.T) {
	fired := map[string]bool{}
	for _, c := range []struct {
		name    string
		from    string
		imports []string
		want    string // part of the only violation; empty if none is expected
	}{
		{"progress may import the client", "pkg/progress", []string{"context", "sigs.k8s.io/controller-runtime/pkg/client"}, ""},
		{"progress must not import diff", "pkg/progress", ours("pkg/diff"),
			"pkg/progress (level 1) imports pkg/diff (level 1), but a package must import only packages of lower levels"},
		{"diff must not import kopf", "pkg/diff", ours("pkg/kopf"), "only packages of lower levels"},
		{"daemons may import progress", "pkg/daemons", ours("pkg/progress", "internal/metrics"), ""},
		{"peering must not import progress", "pkg/peering", ours("pkg/progress"), "peering and webhooks must not import progress"},
		{"webhooks must not import progress", "pkg/webhooks", ours("pkg/progress"), "peering and webhooks must not import progress"},
		{"webhooks must not import the types of peering", "pkg/webhooks", ours("pkg/peering/v1"), "daemons and webhooks must not import the types of peering"},
		{"webhooks must not import peering", "pkg/webhooks", ours("pkg/peering"), "only packages of lower levels"},
		{"peering may import its types", "pkg/peering", ours("pkg/peering/v1"), ""},
		{"the types of peering must not import peering", "pkg/peering/v1", ours("pkg/peering"), "only packages of lower levels"},
		{"daemons must not import the engine", "pkg/daemons", ours("internal/engine"), "only packages of lower levels"},
		{"invoke may import packages of levels 1 and 2", "internal/invoke", ours("pkg/progress", "pkg/daemons", "pkg/conditions"), ""},
		{"match must not import invoke", "internal/match", ours("internal/invoke"),
			"internal/match (level 3) imports internal/invoke (level 4), but"},
		{"patch must not import the engine", "internal/patch", ours("internal/engine"), "only packages of lower levels"},
		{"the engine may import match", "internal/engine", ours("internal/match", "pkg/diff", "pkg/conditions"), ""},
		{"a part must not import another part", "internal/parts/ring", ours("internal/parts/peers"), "only packages of lower levels"},
		{"a part may import a feature", "internal/parts/ring", ours("internal/parts/shards", "internal/parts/watching"), ""},
		{"a feature must not import a part", "internal/parts/watching", ours("internal/parts/peers"), "only packages of lower levels"},
		{"a feature must not import the engine", "internal/parts/background", ours("internal/engine"), "only packages of lower levels"},
		{"the engine must not import a part", "internal/engine", ours("internal/parts/peers"), "only packages of lower levels"},
		{"the engine may import a feature", "internal/engine", ours("internal/parts/background", "internal/parts/retry"), ""},
		{"the engine must not import kopf", "internal/engine", ours("pkg/kopf"), "only packages of lower levels"},
		{"kopf may import the engine", "pkg/kopf", ours("internal/engine", "internal/invoke", "pkg/webhooks", "pkg/diff"), ""},
		{"filter may import match", "pkg/kopf/filter", ours("internal/match", "pkg/diff"), ""},
		{"filter must not import kopf", "pkg/kopf/filter", ours("pkg/kopf"), "only packages of lower levels"},
		{"kopf must not import kopftest", "pkg/kopf", ours("pkg/kopf/kopftest"), "only packages of lower levels"},
		{"kopftest may import kopf", "pkg/kopf/kopftest", ours("pkg/kopf", "internal/engine"), ""},
		{"the engine must not import the control plane", "internal/engine", ours(controlPlane), "may import the control plane"},
		{"the control plane must not import the library", controlPlane, ours("pkg/progress"), "only packages of lower levels"},
		{"kopftest may import the control plane", "pkg/kopf/kopftest", ours(controlPlane), ""},
		{"hack may import the control plane", "hack/example", ours(controlPlane, "pkg/kopf"), ""},
		{"tests may import the library and the control plane", "test/e2e", ours(controlPlane, "pkg/kopf", "internal/engine"), ""},
		{"the simulation may import the library", "test/simulation/scenario", ours("pkg/kopf", "internal/essence", "test/e2e/api/v1"), ""},
		{"the simulated server must not import the library", simulatedServer, ours("pkg/progress"), "only packages of lower levels"},
		{"kopf must not import the simulated server", "pkg/kopf", ours(simulatedServer), "may import the simulated API server"},
		{"kopftest may import the simulated server", "pkg/kopf/kopftest", ours(simulatedServer), ""},
		{"the simulation may import the simulated server", "test/simulation/scenario", ours(simulatedServer), ""},
		{"kopf must not import an example", "pkg/kopf", ours("examples/01-minimal/api"), "must not import examples/, hack/ or test/"},
		{"an example may import kopf", "examples/01-minimal", ours("pkg/kopf", "examples/01-minimal/api"), ""},
		{"an example must not import internal", "examples/01-minimal", ours("internal/match"), "an example must not import internal/"},
		{"essence must not import context", "internal/essence", []string{"context"},
			"internal/essence (level 3) imports context, but a package of pure functions must not import context"},
		{"match may import the client", "internal/match", []string{"sigs.k8s.io/controller-runtime/pkg/client"}, ""},
		{"cause must not import the client", "internal/cause", []string{"sigs.k8s.io/controller-runtime/pkg/client"},
			"must not import the client"},
		{"a package must have a level", "internal/utils", nil, "internal/utils has no level"},
		{"a subpackage must have its own level", "pkg/kopf/helpers", nil, "pkg/kopf/helpers has no level"},
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

	t.Run("a package must have doc.go", func(t *testing.T) {
		violations := check([]node{{ImportPath: module + "/pkg/kopf", Doc: "Package kopf is documented.", GoFiles: []string{"kopf.go"}}})
		if len(violations) != 1 || !strings.Contains(violations[0], "pkg/kopf has no doc.go") {
			t.Errorf("violations = %q, want one about the missing doc.go", violations)
		}
	})
	t.Run("doc.go must have a package comment", func(t *testing.T) {
		violations := check([]node{{ImportPath: module + "/pkg/kopf", GoFiles: []string{"doc.go"}}})
		if len(violations) != 1 || !strings.Contains(violations[0], "pkg/kopf has no doc.go") {
			t.Errorf("violations = %q, want one about the missing doc.go", violations)
		}
	})
	t.Run("a package that does not parse is reported", func(t *testing.T) {
		violations := check([]node{{ImportPath: module + "/hack/example", Error: &struct{ Err string }{"expected 'package'"}}})
		if len(violations) != 1 || !strings.Contains(violations[0], "hack/example cannot be read: expected 'package'") {
			t.Errorf("violations = %q, want one about the parse error", violations)
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
