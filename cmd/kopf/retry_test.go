package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	framework "github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

func TestRetry_InvalidFlags(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for args, part := range map[string]string{
		"x y":                          `required flag(s) "handler" not set`,
		"x y --handler=":               "--handler is empty",
		"x y --handler a --prefix a_b": `--prefix "a_b"`,
		"x y --handler a --timeout 0s": "--timeout must be positive",
		"x y --handler a --text " + strings.Repeat("x", 257): "--text has 257 bytes: use at most 256",
		"x y -A --handler a": "--all-namespaces and names are mutually exclusive",
	} {
		if out, err := kopf(t, append([]string{"retry"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("kopf retry %s: %q, %v; want %q", args, out, err, part)
		}
	}
}

func TestRetry(t *testing.T) {
	config, k8s := startCluster(t)
	var calls atomic.Int32
	var edit atomic.Bool
	var outcome atomic.Pointer[error]
	invalid := framework.Permanent(errors.New("invalid"))
	outcome.Store(&invalid)
	databases := framework.For(framework.Unstructured(databaseKind)).
		OnCreate("provision", func(_ context.Context, req *framework.Request[*unstructured.Unstructured]) error {
			calls.Add(1)
			if edit.Load() { // the next cycle removes the answer at once
				must(t, k8s.Patch(t.Context(), req.Object.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"size":7}}`))))
			}
			return *outcome.Load()
		}).
		OnDelete("drop", func(context.Context, *framework.Request[*unstructured.Unstructured]) error {
			return *outcome.Load()
		}, framework.Backoff(time.Hour))
	ctx, stop := context.WithCancel(t.Context())
	mgr, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	must(t, err)
	must(t, framework.SetupWithManager(mgr, databases))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	for _, name := range []string{"one", "two"} {
		must(t, k8s.Create(t.Context(), sample(name, nil)))
	}
	must(t, wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		return calls.Load() == 2, nil
	}))
	out, err := kopf(t, "retry", kind, "one", "--handler", "provision", "--handler", "none")
	for _, part := range []string{"provision: failed: invalid", "none: refused: there is no cause handler, daemon or timer with this id"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q, %v; want an error with %q", out, err, part)
		}
	}
	busy := framework.Temporary(errors.New("busy"), time.Hour)
	outcome.Store(&busy)
	out, err = kopf(t, "retry", kind, "one", "--handler", "provision", "--timeout", "2s")
	if err == nil || !strings.Contains(err.Error(), "still retrying after 2s") || !strings.Contains(out, "retrying") {
		t.Errorf("%q, %v; want a handler that is still retrying", out, err)
	}
	outcome.Store(new(error))
	before := calls.Load()
	out = mustRun(t, "retry", kind, "--handler", "provision", "--text", "repaired", "-o", "json") // all objects
	var results []retried
	must(t, json.Unmarshal([]byte(out), &results))
	if len(results) != 2 || results[0].Outcome != "succeeded" || results[1].Outcome != "succeeded" || results[0].Request != "repaired" {
		t.Errorf("results = %+v, want two successes", results)
	}
	if n := calls.Load() - before; n != 2 {
		t.Errorf("the handler was called %d times, want once for each object", n)
	}
	before = calls.Load()
	edit.Store(true)
	mustRun(t, "retry", kind, "--handler", "provision", "--text", "repaired") // the text of the last request
	edit.Store(false)
	if n := calls.Load() - before; n != 2 {
		t.Errorf("the handler was called %d times for a text that was used before, want once for each object", n)
	}
	out, err = kopf(t, "retry", kind, "one", "--handler", "provision", "--prefix", "other.example.com", "--timeout", "1s")
	if err == nil || !strings.Contains(err.Error(), "no answer after 1s") {
		t.Errorf("%q, %v; want no answer for another prefix", out, err)
	}
	if out = mustRun(t, "retry", kind, "two", "--handler", "provision", "--no-wait"); !strings.Contains(out, "requested") {
		t.Errorf("got %q", out)
	}
	outcome.Store(&busy)
	two := sample("two", nil)
	must(t, k8s.Delete(t.Context(), two))
	if out, err = kopf(t, "retry", kind, "two", "--handler", "drop", "--timeout", "2s"); err == nil || !strings.Contains(err.Error(), "still retrying") {
		t.Errorf("%q, %v; want a delete handler that is still retrying", out, err)
	}
	outcome.Store(new(error))
	if out = mustRun(t, "retry", kind, "two", "--handler", "drop"); !strings.Contains(out, "deleted") {
		t.Errorf("got %q, want a deleted object", out)
	}
	runRetriesOfThePage(t, k8s)
	stop()
	must(t, <-ended)
}

// startCluster starts a control plane with the kind Database, and makes commands use it.
func startCluster(t *testing.T) (*rest.Config, client.Client) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	cp, err := controlplane.Start(controlplane.Options{CRDPaths: []string{"../../examples/01-minimal/config/crd"}})
	must(t, err)
	t.Cleanup(func() { _ = cp.Stop() })
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, cp.WriteKubeconfig(file))
	t.Setenv("KUBECONFIG", file)
	k8s, err := client.New(cp.Config, client.Options{})
	must(t, err)
	return cp.Config, k8s
}

// runRetriesOfThePage runs the commands of docs/errors.md.
func runRetriesOfThePage(t *testing.T, k8s client.Client) {
	t.Helper()
	must(t, k8s.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	orders := sample("orders", nil)
	orders.SetNamespace("shop")
	must(t, k8s.Create(t.Context(), orders))
	text, err := os.ReadFile("../../docs/errors.md")
	must(t, err)
	blocks := regexp.MustCompile("(?s)```console\n\\$ (kopf|kubectl) ([^\n]*)\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 2 {
		t.Fatalf("docs/errors.md has the commands %q, want two", blocks)
	}
	if got := regexp.MustCompile(` +\n`).ReplaceAllString(mustRun(t, strings.Fields(blocks[0][2])...), "\n"); strings.TrimSpace(got) != strings.TrimSpace(blocks[0][3]) {
		t.Errorf("kopf %s prints\n%s\nwant\n%s", blocks[0][2], got, blocks[0][3])
	}
	assets, err := controlplane.Assets()
	must(t, err)
	output, err := exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), strings.Fields(blocks[1][2])...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", blocks[1][2], err, output)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err := k8s.Get(ctx, client.ObjectKeyFromObject(orders), orders)
		return orders.GetAnnotations()["kopf.zalando.org/retried.provision"] == `{"request":"now","outcome":"succeeded"}`, err
	})
	if err != nil {
		t.Errorf("%v: annotations = %v, want an answer", err, orders.GetAnnotations())
	}
}
