package guide

import (
	"path/filepath"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	"github.com/kopf-runtime/kopf-runtime/test/doctest"
)

// steps returns the code blocks of a page, in order.
func steps(t *testing.T, page string) []doctest.Step {
	t.Helper()
	found, err := doctest.Steps(page)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// terminal returns a terminal that has kubectl and access to the cluster.
func terminal(t *testing.T, folder string, programs ...string) doctest.Terminal {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := cluster.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	assets, err := controlplane.Assets()
	if err != nil {
		t.Fatal(err)
	}
	return doctest.Terminal{Folder: folder, Kubeconfig: kubeconfig, Programs: append(programs, assets)}
}
