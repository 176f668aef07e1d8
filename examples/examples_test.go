// Package examples runs the examples as their readers would, on a real API server, and holds their
// README files against what is seen.
package examples

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

const (
	lastHandled = "kopf.zalando.org/last-handled-configuration"
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// walks do with an example what its README says.
var walks = map[string]func(*example){
	"01-minimal":     minimal,
	"02-children":    children,
	"03-exceptions":  exceptions,
	"04-events":      posted,
	"05-handlers":    handlers,
	"06-peering":     amongPeers,
	"07-subhandlers": subhandlers,
	"08-events":      events,
	"09-testing":     tested,
	"10-builtins":    builtins,
	"11-filtering":   filtering,
	"12-embedded":    embedded,
	"13-hooks":       hooks,
	"14-daemons":     daemons,
	"15-timers":      timers,
	"16-indexing":    indexing,
	"17-admission":   admission,
	"18-conditions":  conditioned,
	"99-all-at-once": allAtOnce,
	"kubebuilder":    kubebuilder,
}

func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	log.SetLogger(logr.Discard()) // for what is told of the making of clients
	watch(t)
	cp, err := controlplane.Start(controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(walks)) {
		t.Run(name, func(t *testing.T) {
			e := prepare(t, cp, name)
			walks[name](e)
			e.readme()
			e.stop()
			e.cleanUp()
			e.typedAll()
		})
	}
}

// An example that nobody runs will not work for long.
func TestEveryExampleIsRun(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, entry := range entries {
		if entry.IsDir() {
			folders = append(folders, entry.Name())
		}
	}
	if diff := cmp.Diff(folders, slices.Sorted(maps.Keys(walks))); diff != "" {
		t.Errorf("folders (-) and what is run (+):\n%s", diff)
	}
}

// Those who try several examples have one kind of databases: the files must not differ.
func TestExamplesShareTheKindDatabase(t *testing.T) {
	files, err := filepath.Glob("*/config/crd/databases.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("there is none", err)
	}
	for _, file := range files {
		if diff := cmp.Diff(read(t, files[0]), read(t, file)); diff != "" {
			t.Errorf("%s differs from %s:\n%s", file, files[0], diff)
		}
	}
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
