package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// initIn runs kopf init in a folder.
func initIn(t *testing.T, folder string, args ...string) (string, error) {
	t.Helper()
	return kopf(t, append([]string{"init", "--dir", folder}, args...)...)
}

// libraryRoot returns the folder of this module.
func libraryRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// execute runs a command in a folder.
func execute(t *testing.T, folder string, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}

// listed returns the files below a folder.
func listed(t *testing.T, folder string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if err == nil && path != folder {
			files = append(files, strings.TrimPrefix(path, folder+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A new project passes its tests, in memory and on a real API server with its role, and its operator handles an object.
func TestInit_NewProject(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a project")
	}
	folder := filepath.Join(t.TempDir(), "databases")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	readme := filepath.Join(folder, "README.md")
	if err := os.WriteFile(readme, []byte("ours\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := initIn(t, folder, "--group", "example.com", "--kind", "Database", "--library", libraryRoot(t))
	if err != nil || !strings.Contains(out, "make run") {
		t.Fatalf("%q, %v", out, err)
	}
	if text, err := os.ReadFile(readme); err != nil || string(text) != "ours\n" {
		t.Errorf("README.md = %q, %v; want the one of the user", text, err)
	}
	out, err = initIn(t, folder, "--group", "example.com", "--kind", "Database", "--library", libraryRoot(t))
	if err == nil || !strings.Contains(err.Error(), "the project already has a kind Database, in the group example.com") {
		t.Errorf("again: %q, %v", out, err)
	}

	cp, err := controlplane.Start(controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cp.Stop() })
	assets, err := controlplane.Assets()
	if err != nil {
		t.Fatal(err)
	}
	execute(t, folder, []string{"KUBEBUILDER_ASSETS="}, "make", "test") // a newcomer has no API server yet
	execute(t, folder, []string{"KUBEBUILDER_ASSETS=" + assets}, "go", "test", "-vet=all", "./...")
	execute(t, folder, nil, "go", "build", "-o", "bin/manager", "./cmd")

	if _, err := envtest.InstallCRDs(cp.Config, envtest.CRDInstallOptions{Paths: []string{filepath.Join(folder, "config", "crd", "bases")}}); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := cp.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	manager := exec.CommandContext(ctx, filepath.Join(folder, "bin", "manager"), "-health-probe-bind-address=0")
	manager.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	if err := manager.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		_ = manager.Wait()
	}()
	c, err := client.New(cp.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Database", "spec": map[string]any{"size": int64(7)}}}
	obj.SetNamespace("default")
	obj.SetName("orders")
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	for size := int64(0); size != 7; size, _, _ = unstructured.NestedInt64(obj.Object, "status", "size") {
		if t.Context().Err() != nil {
			t.Fatal("the operator has not handled the object")
		}
		<-time.After(100 * time.Millisecond)
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			t.Fatal(err)
		}
	}
}

// In a project of kubebuilder, the command adds files, and changes only PROJECT, cmd/main.go and the list of CRDs.
func TestInit_AddsAKind(t *testing.T) {
	folder := t.TempDir()
	write := func(path, text string) {
		file := filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("PROJECT", "# comment\ndomain: example.com\nlayout:\n- go.kubebuilder.io/v4\nprojectName: shop\nrepo: example.com/shop\nversion: \"3\"\n")
	write("go.mod", "module example.com/shop\n\ngo 1.26.0\n")
	write("cmd/main.go", `package main

import (
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	// +kubebuilder:scaffold:imports
)

var (
	scheme   = runtime.NewScheme()
	setupLog = ctrl.Log.WithName("setup")
)

func init() {
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	// +kubebuilder:scaffold:scheme
}

func main() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: scheme})
	if err != nil {
		os.Exit(1)
	}
	// +kubebuilder:scaffold:builder
	setupLog.Error(mgr.Start(ctrl.SetupSignalHandler()), "The manager has ended")
}
`)
	before := listed(t, folder)
	for _, kind := range []string{"Order", "Invoice"} {
		if out, err := initIn(t, folder, "--group", "sales", "--kind", kind, "--library", libraryRoot(t)); err != nil {
			t.Fatalf("%s: %s, %v", kind, out, err)
		}
	}
	for _, path := range []string{
		"api/v1/order_types.go", "api/v1/invoice_types.go", "api/v1/groupversion_info.go", "internal/controller/order_handlers.go",
		"internal/controller/invoice_handlers_test.go", "config/samples/v1_order.yaml", "config/crd/kustomization.yaml", "go.sum",
	} {
		if !slices.Contains(listed(t, folder), path) || slices.Contains(before, path) {
			t.Errorf("%s is missing", path)
		}
	}
	for path, texts := range map[string][]string{
		"PROJECT":                       {"# comment", "kind: Order", "kind: Invoice"},
		"config/crd/kustomization.yaml": {"- bases/sales.example.com_orders.yaml", "- bases/sales.example.com_invoices.yaml"},
		"cmd/main.go":                   {`salesv1 "example.com/shop/api/v1"`, "salesv1.AddToScheme(scheme)", "controller.SetupOrder(mgr)", "controller.SetupInvoice(mgr)"},
	} {
		text, err := os.ReadFile(filepath.Join(folder, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range texts {
			if strings.Count(string(text), want) != 1 {
				t.Errorf("%s has %q %d times:\n%s", path, want, strings.Count(string(text), want), text)
			}
		}
	}
	if testing.Short() {
		return
	}
	generator := filepath.Join(libraryRoot(t), "bin", "controller-gen")
	if _, err := os.Stat(generator); err != nil {
		t.Fatal("needs bin/controller-gen: run make tools")
	}
	execute(t, folder, nil, generator, "object", "crd", "rbac:roleName=manager-role", "paths=./...", "output:crd:dir=config/crd/bases", "output:rbac:dir=config/rbac")
	assets, err := controlplane.Assets()
	if err != nil {
		t.Fatal(err)
	}
	execute(t, folder, []string{"KUBEBUILDER_ASSETS=" + assets}, "go", "test", "-vet=all", "./...")
}

// After an error, the folder is as before.
func TestInit_BadInput(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		args  []string
		want  string
	}{
		"a folder with files":       {map[string]string{"main.go": "package main\n"}, nil, "contains main.go, and is no project of kubebuilder"},
		"a kind in lower case":      {nil, []string{"--kind", "database"}, `--kind "database": it must begin with an upper-case letter`},
		"a group with an underline": {nil, []string{"--group", "a_b"}, `--group "a_b"`},
		"a version":                 {nil, []string{"--api-version", "1"}, `--api-version "1": use v1`},
		"a group of Kubernetes":     {nil, []string{"--group", "apps"}, `--group "apps": add a domain`},
		"a protected group":         {nil, []string{"--group", "shop.k8s.io"}, "need Kubernetes' approval"},
		"a long kind":               {nil, []string{"--kind", "D" + strings.Repeat("x", 63)}, "is no DNS label"},
		"an empty kind":             {nil, []string{"--kind", ""}, `--kind ""`},
		"a module with a space":     {nil, []string{"--module", "exa mple"}, "--module: malformed import path"},
		"no library":                {nil, []string{"--library", "."}, "does not contain the module"},
		"an unknown module":         {nil, []string{"--library", ""}, "pass a folder with the library: --library"},
		"a project with groups":     {map[string]string{"PROJECT": "repo: example.com/x\nmultigroup: true\n"}, nil, "multigroup is not supported"},
		"another PROJECT":           {map[string]string{"PROJECT": "hello: world\n"}, nil, "it has no repo"},
		"no main.go":                {map[string]string{"PROJECT": "repo: example.com/x\nversion: \"3\"\n"}, nil, "cmd/main.go"},
		"main.go without markers": {
			map[string]string{"PROJECT": "repo: example.com/x\nversion: \"3\"\n", "cmd/main.go": "package main\n"}, nil, `cmd/main.go has no line "// +kubebuilder:scaffold:imports"`,
		},
		"a foreign file": {
			map[string]string{"PROJECT": "repo: example.com/x\nversion: \"3\"\n", "internal/controller/database_handlers.go": "package controller\n"}, nil, "exists already",
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for path, text := range c.files {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, path)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(folder, path), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			before := listed(t, folder)
			t.Setenv("GOPROXY", "off")
			out, err := initIn(t, folder, append([]string{"--group", "example.com", "--kind", "Database", "--library", libraryRoot(t)}, c.args...)...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q, %v; want %q", out, err, c.want)
			}
			if after := listed(t, folder); !slices.Equal(before, after) {
				t.Errorf("files %v, want %v", after, before)
			}
		})
	}
}

func TestInit_FailedInNewFolderRemovesIt(t *testing.T) {
	parent := t.TempDir()
	t.Setenv("GOPROXY", "off")
	out, err := initIn(t, filepath.Join(parent, "a", "b"), "--group", "example.com", "--kind", "Database")
	if err == nil || !strings.Contains(err.Error(), "--library") {
		t.Errorf("%q, %v; want a hint at --library", out, err)
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
