package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

func TestVersion(t *testing.T) {
	version = "v1.2.3"
	t.Cleanup(func() { version = "" })
	want := "kopf v1.2.3 " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + "\n"
	for _, arg := range []string{"version", "--version"} {
		if got := mustRun(t, arg); got != want {
			t.Errorf("kopf %s: got %q, want %q", arg, got, want)
		}
	}
	version = ""
	if got := mustRun(t, "version"); len(strings.Fields(got)) != 4 {
		t.Errorf("kopf version without the linker's version: got %q, want four words", got)
	}
}

func TestCompletion(t *testing.T) {
	for file, name := range map[string]string{"/bin/kopf": "kopf", "/bin/kubectl-kopf": "kubectl-kopf"} {
		for shell, part := range map[string]string{
			"bash": "complete -o default -F __start_" + name + " " + name + "\n", "zsh": "#compdef " + name + "\n",
			"fish": "complete -c " + name + " ", "powershell": "-CommandName '" + name + "'",
		} {
			var out bytes.Buffer
			root := newRoot(file)
			root.SetOut(&out)
			root.SetArgs([]string{"completion", shell})
			must(t, root.Execute())
			if !strings.Contains(out.String(), part) {
				t.Errorf("completion %s of %s does not contain %q", shell, file, part)
			}
		}
	}
}

// The test builds the released program in two folders, with the flags in .goreleaser.yaml. The programs must be equal and work as a plugin of kubectl.
func TestPackaging(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	root, err := filepath.Abs("../..")
	must(t, err)
	elsewhere := t.TempDir()
	for _, folder := range []string{"cmd", "internal", "pkg"} {
		must(t, os.CopyFS(filepath.Join(elsewhere, folder), os.DirFS(filepath.Join(root, folder))))
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(root, file))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(elsewhere, file), data, 0o600))
	}

	bin := t.TempDir()
	plugin := filepath.Join(bin, "kubectl-kopf")
	build(t, root, plugin)
	second := filepath.Join(elsewhere, "kopf")
	build(t, elsewhere, second)
	if one, two := readFile(t, plugin), readFile(t, second); !bytes.Equal(one, two) {
		t.Errorf("the builds in two folders differ: %d and %d bytes", len(one), len(two))
	}
	if got := runProgram(t, second, "version"); !strings.HasPrefix(got, "kopf v1.2.3 ") {
		t.Errorf("got version %q, want v1.2.3", got)
	}

	must(t, os.WriteFile(filepath.Join(bin, "kubectl_complete-kopf"), readFile(t, "../../hack/release/kubectl_complete-kopf"), 0o700))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	assets, err := controlplane.Assets()
	must(t, err)
	kubectl := filepath.Join(assets, "kubectl")
	if _, err := os.Stat(kubectl); err != nil {
		if kubectl, err = exec.LookPath("kubectl"); err != nil {
			t.Skip("kubectl is missing: run make controlplane")
		}
	}
	if got := runProgram(t, kubectl, "kopf", "--help"); !strings.Contains(got, "kubectl kopf [command]") {
		t.Errorf("kubectl kopf --help: got\n%s\nwant the usage line with %q", got, "kubectl kopf [command]")
	}
	if got := runProgram(t, kubectl, "__complete", "kopf", "pe"); !strings.HasPrefix(got, "peers\t") {
		t.Errorf("completion of kubectl kopf pe: got\n%s\nwant peers first", got)
	}
}

// build builds the version v1.2.3 of the command in a copy of the module.
func build(t *testing.T, module, file string) {
	t.Helper()
	var config struct {
		Builds []struct{ Env, Flags, Ldflags []string }
	}
	must(t, yaml.Unmarshal(readFile(t, "../../.goreleaser.yaml"), &config))
	released := config.Builds[0]
	args := append([]string{"build", "-o", file}, released.Flags...)
	args = append(args, "-ldflags", strings.ReplaceAll(released.Ldflags[0], "{{ .Version }}", "1.2.3"), "./cmd/kopf")
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), released.Env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %q: %v\n%s", args, err, out)
	}
}

func runProgram(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).Output()
	must(t, err)
	return string(out)
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	return data
}
