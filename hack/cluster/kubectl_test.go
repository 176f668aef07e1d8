package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// The API server in memory is good enough for the usual commands of kubectl.
func TestCluster_Kubectl(t *testing.T) {
	if testing.Short() {
		t.Skip("needs kubectl, which make controlplane builds")
	}
	assets, err := controlplane.Assets()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	ctx, end := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, in, file, false, nil)
		ended <- errors.Join(err, in.CloseWithError(err))
	}()
	if _, err := out.Read(make([]byte, 1000)); err != nil {
		t.Fatal(err, <-ended)
	}
	kubectl := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+file, "HOME="+t.TempDir(), "KUBE_EDITOR=sed -i.before s/sizeGiB:.*/sizeGiB:\\ 30/")
		return cmd
	}
	for _, args := range [][]string{
		{"apply", "-f", "../../examples/01-minimal/config/crd"},
		{"wait", "--for=condition=Established", "--timeout=30s", "crd/databases.demo.example.com"},
	} {
		if text, err := kubectl(args...).CombinedOutput(); err != nil {
			t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, text)
		}
	}
	watch := kubectl("get", "databases", "--watch", "--output=jsonpath={.spec.sizeGiB}\n")
	events, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	const sample = "../../examples/01-minimal/config/samples/database.yaml"
	changed, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(t.TempDir(), "database.yaml")
	if err := os.WriteFile(again, []byte(strings.ReplaceAll(string(changed), "sizeGiB: 10", "sizeGiB: 15")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		args []string
		says string
	}{
		{[]string{"get", "ns"}, "default"},
		{[]string{"api-resources", "--api-group=demo.example.com"}, "databases"},
		{[]string{"apply", "-f", sample}, "database.demo.example.com/orders created"},
		{[]string{"apply", "-f", again}, "database.demo.example.com/orders configured"},
		{[]string{"apply", "-f", again}, "database.demo.example.com/orders unchanged"},
		{[]string{"apply", "--server-side", "--force-conflicts", "-f", sample}, "serverside-applied"},
		{[]string{"get", "database", "orders"}, "orders"},
		{[]string{"get", "databases"}, "NAME     ENGINE     SIZE   HOST"},
		{[]string{"get", "database", "orders", "-o", "yaml"}, "sizeGiB: 10"},
		{[]string{"describe", "database", "orders"}, "Size Gi B:  10"},
		{[]string{"edit", "database", "orders"}, "database.demo.example.com/orders edited"},
		{[]string{"label", "database", "orders", "team=a"}, "labeled"},
		{[]string{"get", "databases", "--all-namespaces", "--selector=team=a"}, "orders"},
		{[]string{"patch", "database", "orders", "--type=merge", "--patch", `{"spec":{"sizeGiB":20}}`}, "patched"},
		{[]string{"create", "configmap", "settings", "--from-literal=a=b"}, "configmap/settings created"},
		{[]string{"create", "deployment", "web", "--image=nginx"}, "deployment.apps/web created"},
		{[]string{"auth", "can-i", "create", "databases.demo.example.com"}, "yes"},
		{[]string{"delete", "database", "orders"}, `"orders" deleted`},
		{[]string{"delete", "crd", "databases.demo.example.com"}, "deleted"},
		{[]string{"create", "-f", "../../examples/01-minimal/config/crd"}, "created"}, // a kind can come again
		{[]string{"get", "databases"}, "No resources found"},
	} {
		text, err := kubectl(step.args...).CombinedOutput()
		if err != nil || !strings.Contains(string(text), step.says) {
			t.Errorf("kubectl %s: %v: %s; want %q", strings.Join(step.args, " "), err, text, step.says)
		}
	}
	time.AfterFunc(time.Minute, func() { _ = watch.Process.Kill() })
	var sizes string
	for part := make([]byte, 100); !strings.HasSuffix(sizes, "20\n20\n"); { // the deletion has the last state
		n, err := events.Read(part)
		if sizes += string(part[:n]); err != nil {
			break
		}
	}
	if seen := slices.Compact(strings.Fields(sizes)); !slices.Equal(seen, []string{"10", "15", "10", "30", "20"}) { // some commands send several requests
		t.Errorf("the watch has shown the sizes %v", seen)
	}
	end()
	if err := errors.Join(<-ended, watch.Wait()); err != nil {
		t.Log(err) // the watch ends with the server
	}
}
