// Package examples runs the examples on a real API server, as their READMEs describe, and compares the READMEs with the
// results.
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
	stamp       = "kopf.zalando.org/state-of-" // the beginning of the key
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// walkthroughs execute the steps of the README of an example.
var walkthroughs = map[string]func(*example){
	"01-minimal":        minimal,
	"02-children":       children,
	"03-exceptions":     exceptions,
	"04-events":         recordedEvents,
	"05-handlers":       handlers,
	"06-peering":        peers,
	"07-subhandlers":    subhandlers,
	"08-events":         events,
	"09-testing":        testedHandlers,
	"10-builtins":       builtins,
	"11-filtering":      filtering,
	"12-embedded":       embedded,
	"13-hooks":          hooks,
	"14-daemons":        daemons,
	"15-timers":         timers,
	"16-indexing":       indexing,
	"17-admission":      admission,
	"18-conditions":     statusConditions,
	"19-kinds":          kinds,
	"20-namespaces":     namespaces,
	"21-related":        related,
	"22-children-set":   childrenSet,
	"23-logs":           podLogs,
	"24-cluster-events": clusterEvents,
	"99-all-at-once":    allAtOnce,
	"kubebuilder":       kubebuilder,
	"25-sharded":        sharded,
	"26-upgrade":        upgrade,
}

func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	log.SetLogger(logr.Discard()) // controller-runtime would otherwise log a missing logger
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
	for _, name := range slices.Sorted(maps.Keys(walkthroughs)) {
		t.Run(name, func(t *testing.T) {
			e := prepare(t, cp, name)
			walkthroughs[name](e)
			e.checkLogInReadme()
			e.stop()
			e.cleanUp()
			e.checkAllCommandsExecuted()
		})
	}
}

// Each folder must have a walkthrough.
func TestExamples_HaveWalkthroughs(t *testing.T) {
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
	if diff := cmp.Diff(folders, slices.Sorted(maps.Keys(walkthroughs))); diff != "" {
		t.Errorf("folders (-) and walkthroughs (+):\n%s", diff)
	}
}

// The files with the CRD of Database must be equal, because a reader may run several examples on one cluster.
func TestExamples_ShareTheDatabaseCRD(t *testing.T) {
	files, err := filepath.Glob("*/config/crd/databases.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files found", err)
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
