// Package readme compares the README and the pages of docs/ with the code.
package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

var block = regexp.MustCompile("(?sm)^```go\n(.*?)^```")

// file matches a block that contains a whole file, and the line before it, which names the file. The test of
// docs/getting-started.md builds the program from these files.
var file = regexp.MustCompile("(?sm)^`[\\w./-]+\\.go`:\n\n```go\n.*?^```")

// Each Go block of the pages must occur line by line in a compiled source.
func TestDocs_GoCodeIsCompiled(t *testing.T) {
	compiled := compiledSources(t)
	found := 0
	for _, page := range pages(t) {
		text := read(t, page)
		if filepath.Base(page) == "getting-started.md" {
			text = file.ReplaceAllString(text, "")
		}
		for _, match := range block.FindAllStringSubmatch(text, -1) {
			code := match[1]
			if strings.HasPrefix(code, "// +kubebuilder:") {
				continue // markers are comments
			}
			found++
			if !isInSources(lines(code), compiled) {
				t.Errorf("%s: this code is in no test file of pkg/, test/guide or examples/; put it into an Example:\n%s", page, code)
			}
		}
	}
	if found == 0 {
		t.Error("number of Go blocks in the docs = 0, want more")
	}
}

// TestDocs_GoCodeIsCompiled must detect a changed word and ignore indentation.
func TestGoCode_DetectsChanges(t *testing.T) {
	sources := [][]string{lines("func f() {\n\ta := 1\n\n\tb  := 2 // two\n}\n")}
	for code, want := range map[string]bool{
		"a := 1\nb := 2 // two\n": true,
		"\t\ta := 1\n":            true,
		"a := 1\n}\n":             false,
		"a := 2\n":                false,
		"a :=\n":                  false,
		"\n":                      false,
	} {
		if got := isInSources(lines(code), sources); got != want {
			t.Errorf("isInSources(%q) = %t, want %t", code, got, want)
		}
	}
}

func TestDocs_LinksHaveTargets(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(prose(read(t, page)), -1) {
			file, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the target of the link %s does not exist", page, match[1])
			} else if anchor != "" && !slices.Contains(anchors(prose(read(t, target))), anchor) {
				t.Errorf("%s: %s has no heading for the link %s", page, target, match[1])
			}
		}
	}
}

func TestDocs_CommandsExist(t *testing.T) {
	makefile := read(t, filepath.Join(root, "Makefile"))
	found := 0
	for _, page := range append(pages(t), filepath.Join(root, "CONTRIBUTING.md")) {
		for _, target := range regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)").FindAllStringSubmatch(read(t, page), -1) {
			found++
			if !strings.Contains(makefile, "\n"+target[1]+":") {
				t.Errorf("%s: the Makefile has no target %q", page, target[1])
			}
		}
	}
	if found == 0 {
		t.Error("number of commands in the docs = 0, want more")
	}
}
