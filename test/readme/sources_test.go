package readme

import (
	"go/build"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages returns the paths of the README and the pages in docs/.
func pages(t *testing.T) []string {
	t.Helper()
	return append(glob(t, "docs/*.md"), glob(t, "docs/decisions/*.md", "README.md")...)
}

// compiledSources returns the lines of the files with examples. It omits files that a build constraint excludes.
func compiledSources(t *testing.T) (sources [][]string) {
	t.Helper()
	for _, file := range glob(t, "pkg/*/*_test.go", "pkg/kopf/*/*_test.go", "test/guide/*_test.go", "examples/*/*_test.go", "examples/*/internal/*/*_test.go", "contrib/*/*_test.go") {
		if ok, err := build.Default.MatchFile(filepath.Split(file)); err != nil || !ok {
			continue
		}
		sources = append(sources, lines(read(t, file)))
	}
	return sources
}

// lines returns the non-empty lines of a text, with single spaces between their words.
func lines(text string) (out []string) {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			out = append(out, strings.Join(words, " "))
		}
	}
	return out
}

// isInSources reports whether one of the sources contains the lines in succession.
func isInSources(code []string, sources [][]string) bool {
	return len(code) > 0 && slices.ContainsFunc(sources, func(source []string) bool {
		for i := range source {
			if len(source)-i >= len(code) && slices.Equal(source[i:i+len(code)], code) {
				return true
			}
		}
		return false
	})
}

// prose returns the text of a page without its code blocks.
func prose(page string) string { return fenced.ReplaceAllString(page, "") }

var (
	fenced   = regexp.MustCompile("(?sm)^```.*?^```")
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the anchors that GitHub generates for the headings of a page.
func anchors(page string) (out []string) {
	for _, match := range heading.FindAllStringSubmatch(page, -1) {
		text := noAnchor.ReplaceAllString(strings.ToLower(match[1]), "")
		out = append(out, strings.ReplaceAll(text, " ", "-"))
	}
	return out
}

func glob(t *testing.T, patterns ...string) (files []string) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 && !strings.HasPrefix(pattern, "pkg/") {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	return files
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
