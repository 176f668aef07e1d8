package guide

import (
	"os"
	"regexp"
	"testing"
)

// A step is a block of a page: a file, if a line before it names one, or commands.
type step struct {
	language string // sh, go, yaml, or none for output
	file     string
	text     string
}

var blocks = regexp.MustCompile("(?sm)(?:^`([\\w./-]+)`:\\n\\n)?^```(\\w*)\\n(.*?)^```")

// steps are the blocks of a page, in order.
func steps(t *testing.T, page string) (out []step) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range blocks.FindAllStringSubmatch(string(text), -1) {
		out = append(out, step{file: match[1], language: match[2], text: match[3]})
	}
	return out
}
