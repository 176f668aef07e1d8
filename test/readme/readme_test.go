// Package readme holds the README against the code.
package readme

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The code that readers of the README copy is compiled somewhere: here.
const tour = "../../pkg/kopf/example_tour_test.go"

func TestTheCodeOfTheReadmeIsCompiled(t *testing.T) {
	compiled := read(t, tour)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, "../../README.md"), -1)
	found := 0
	for _, block := range blocks {
		code := block[1]
		if strings.HasPrefix(code, "// +kubebuilder:") {
			continue // markers are comments
		}
		found++
		if !strings.Contains(compiled, code) {
			t.Errorf("this code of the README is not in %s:\n%s", tour, code)
		}
	}
	if found == 0 {
		t.Error("the README has no code")
	}
}

func TestTheCommandsOfTheReadmeExist(t *testing.T) {
	makefile := read(t, "../../Makefile")
	targets := regexp.MustCompile(`(?m)make ([a-z-]+)`).FindAllStringSubmatch(read(t, "../../README.md")+read(t, "../../CONTRIBUTING.md"), -1)
	if len(targets) < 2 {
		t.Error("the README names no commands")
	}
	for _, target := range targets {
		if !strings.Contains(makefile, "\n"+target[1]+":") {
			t.Errorf("the Makefile has no target %q", target[1])
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
