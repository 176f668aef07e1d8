package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The printed commands give access to a cluster with the CRDs. At the end, the command removes the kubeconfig.
func TestCluster_InstallsCRDs(t *testing.T) {
	for name, isReal := range map[string]bool{"in memory": false, "real": true} {
		t.Run(name, func(t *testing.T) { installsCRDs(t, isReal) })
	}
}

func installsCRDs(t *testing.T, isReal bool) {
	if isReal && testing.Short() {
		t.Skip("needs a control plane")
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	ctx, end := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, in, file, isReal, []string{"../../examples/01-minimal/config/crd"})
		ended <- errors.Join(err, in.Close())
	}()
	text := make([]byte, 1000)
	n, err := out.Read(text)
	if err != nil {
		t.Fatal(err, <-ended)
	}
	if !strings.Contains(string(text[:n]), "export KUBECONFIG="+file) {
		t.Errorf("got output %s, want export KUBECONFIG=%s", text[:n], file)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	k8s, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k8s.RESTMapper().RESTMapping(schema.GroupKind{Group: "demo.example.com", Kind: "Database"}); err != nil {
		t.Error(err)
	}
	// A second cluster must not overwrite the kubeconfig of the first one.
	if err := run(t.Context(), io.Discard, file, isReal, nil); err == nil || !strings.Contains(err.Error(), "another cluster may be using it") {
		t.Errorf("run with an existing kubeconfig returned %v, want an error", err)
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the kubeconfig still exists: %v", err)
	}
}
