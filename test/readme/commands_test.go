package readme

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/test/doctest"
)

// The benchmark must have the flags in docs/performance.md.
func TestBenchmark_HasDocumentedFlags(t *testing.T) {
	if testing.Short() {
		t.Skip("the test builds the benchmark")
	}
	steps, err := doctest.Steps(filepath.Join(root, "docs/performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	flags := regexp.MustCompile(`[='" ](-[a-z]+)`)
	var help string
	used := map[string]bool{}
	for _, step := range steps {
		for _, command := range step.Commands() {
			switch name, arguments, _ := strings.Cut(command, "BENCHFLAGS"); {
			case strings.HasSuffix(command, "-args -h"):
				out, err := (doctest.Terminal{Folder: root}).Type(t.Context(), command)
				if err != nil {
					t.Fatal(err)
				}
				help = out
			case name == "make bench ":
				for _, match := range flags.FindAllStringSubmatch(arguments, -1) {
					used[match[1]] = true
				}
			}
		}
	}
	if len(used) < 4 {
		t.Errorf("flags in docs/performance.md = %v, want at least 4", used)
	}
	for flag := range used {
		if !regexp.MustCompile(`(?m)^ +` + flag + `\b`).MatchString(help) {
			t.Errorf("the benchmark has no flag %s:\n%s", flag, help)
		}
	}
}

// Each Dockerfile must use the Go version of go.mod and build an existing package. It must copy from an existing stage
// and run the program that it has built.
func TestDockerfiles_BuildAndRunThePrograms(t *testing.T) {
	files := map[string]string{"examples/kubebuilder/Dockerfile": read(t, filepath.Join(root, "examples/kubebuilder/Dockerfile"))}
	steps, err := doctest.Steps(filepath.Join(root, "docs/deployment.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		if step.Language == "dockerfile" {
			files["docs/deployment.md"] = step.Text
		}
	}
	if len(files) != 2 {
		t.Fatalf("number of Dockerfiles = %d, want 2", len(files))
	}
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, filepath.Join(root, "go.mod")))[1]
	for name, text := range files {
		one := func(pattern string) []string {
			found := regexp.MustCompile(`(?m)^`+pattern+`$`).FindAllStringSubmatch(text, -1)
			if len(found) != 1 {
				t.Fatalf("%s: number of matching lines = %d, want 1; pattern: %s", name, len(found), pattern)
			}
			return found[0]
		}
		stage := one(`FROM golang:` + regexp.QuoteMeta(goVersion) + ` AS (\w+)`)[1]
		one(`FROM gcr\.io/distroless/static:nonroot`)
		built := one(`RUN (CGO_ENABLED=0 .*go build .*-o (/\w+) \S+)`)
		if out, err := exec.CommandContext(t.Context(), "sh", "-n", "-c", built[1]).CombinedOutput(); err != nil {
			t.Errorf("%s: the RUN command has a syntax error: %s", name, out)
		}
		copied := one(`COPY --from=` + stage + ` (/\w+) (/\w+)`)
		if started := one(`ENTRYPOINT \["(/\w+)"\]`)[1]; copied[1] != built[2] || copied[2] != started {
			t.Errorf("%s: built %s, copied %s to %s, started %s, want the same program", name, built[2], copied[1], copied[2], started)
		}
		one(`USER \d+:\d+`)
	}
}
