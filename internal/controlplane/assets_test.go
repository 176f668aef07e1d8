package controlplane

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	. "github.com/onsi/gomega"
)

// fakeAssets creates a directory with executables of these names.
func fakeAssets(t *testing.T, dir string, names ...string) string {
	t.Helper()
	g := NewWithT(t)
	g.Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	for _, name := range names {
		g.Expect(os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755)).To(Succeed())
	}
	return dir
}

func TestAssets_EnvironmentVariable(t *testing.T) {
	g := NewWithT(t)
	here, there := t.TempDir(), t.TempDir()
	fakeAssets(t, filepath.Join(here, "bin", "controlplane"), "etcd", "kube-apiserver")
	fakeAssets(t, there, "etcd", "kube-apiserver")
	t.Chdir(here)

	t.Setenv(envAssets, there)
	g.Expect(Assets()).To(Equal(there))

	t.Setenv(envAssets, "bin/controlplane")
	g.Expect(Assets()).To(BeAnExistingFile())
	g.Expect(Assets()).To(HavePrefix("/"))
}

func TestAssets_InvalidEnvironmentVariable(t *testing.T) {
	g := NewWithT(t)
	dir := fakeAssets(t, t.TempDir(), "etcd")
	g.Expect(os.WriteFile(filepath.Join(dir, "kube-apiserver"), nil, 0o644)).To(Succeed())
	t.Setenv(envAssets, dir)

	_, err := Assets()
	g.Expect(err).To(MatchError(And(
		ContainSubstring("KUBEBUILDER_ASSETS is set"),
		ContainSubstring("kube-apiserver is not an executable file"),
		Not(ContainSubstring("etcd is not")),
		ContainSubstring("unset it and run `make controlplane`"),
	)))
}

func TestAssets_ParentOfTheCurrentDirectory(t *testing.T) {
	g := NewWithT(t)
	root := t.TempDir()
	assets := fakeAssets(t, filepath.Join(root, "bin", "controlplane"), "etcd", "kube-apiserver")
	deep := filepath.Join(root, "a", "b", "c")
	g.Expect(os.MkdirAll(deep, 0o755)).To(Succeed())
	// A nearer directory without the binaries.
	fakeAssets(t, filepath.Join(root, "a", "bin", "controlplane"), "etcd")
	t.Chdir(deep)
	t.Setenv(envAssets, "")

	got, err := Assets()
	g.Expect(err).NotTo(HaveOccurred())
	same(g, got, assets)
}

func TestAssets_ParentOfTheSourceFile(t *testing.T) {
	g := NewWithT(t)
	if _, file, _, _ := runtime.Caller(0); !filepath.IsAbs(file) {
		t.Skip("built with -trimpath")
	}
	t.Setenv(envAssets, "")
	want, err := Assets() // from the directory of this package
	if err != nil {
		t.Skip("not built: ", err)
	}
	t.Chdir(t.TempDir())
	got, err := Assets()
	g.Expect(err).NotTo(HaveOccurred())
	same(g, got, want)
}

func TestAssets_Missing(t *testing.T) {
	g := NewWithT(t)
	empty, other := t.TempDir(), t.TempDir()
	assets := fakeAssets(t, filepath.Join(other, "bin", "controlplane"), "etcd", "kube-apiserver")
	g.Expect(findAssets(empty, other)).To(Equal(assets))

	_, err := findAssets(empty)
	g.Expect(err).To(MatchError(And(
		ContainSubstring(empty),
		ContainSubstring("run `make controlplane` in the root of the repository"),
		ContainSubstring("set KUBEBUILDER_ASSETS"),
	)))
}

func TestExports(t *testing.T) {
	g := NewWithT(t)
	assets := fakeAssets(t, t.TempDir(), "etcd", "kube-apiserver")
	t.Setenv(envAssets, assets)
	t.Setenv("PATH", t.TempDir())
	g.Expect(Exports("/a/file")).To(Equal([]string{"export KUBECONFIG=/a/file"}), "without any kubectl")
	fakeAssets(t, assets, "kubectl")
	g.Expect(Exports("/a/file")).To(Equal([]string{"export KUBECONFIG=/a/file", `export PATH="$PATH":` + assets}))
	t.Setenv("PATH", fakeAssets(t, t.TempDir(), "kubectl"))
	g.Expect(Exports("/a/file")).To(HaveLen(1), "PATH already contains a kubectl")
}

// same compares directories, resolving symbolic links.
func same(g *WithT, got, want string) {
	a, err := os.Stat(got)
	g.Expect(err).NotTo(HaveOccurred())
	b, err := os.Stat(want)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.SameFile(a, b)).To(BeTrue(), "%s and %s", got, want)
}
