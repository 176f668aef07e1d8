package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-runtime/kopf-runtime/hack/demo/program"
	"github.com/kopf-runtime/kopf-runtime/hack/demo/screen"
)

// A logTail returns new lines from the output of a program.
type logTail struct {
	program *program.Program
	seen    int
}

func (t *logTail) unseen() []string { return t.program.Lines()[t.seen:] }

func (t *logTail) next() []string {
	lines := t.unseen()
	t.seen += len(lines)
	return lines
}

// missing returns an empty string if a new line contains all words.
func (t *logTail) missing(words ...string) string {
	if slices.ContainsFunc(t.unseen(), func(line string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) })
	}) {
		return ""
	}
	return fmt.Sprintf("the log has no line with %q", words)
}

// shortened returns the new lines without the date and without fields that are the same in all lines.
func (t *logTail) shortened() []string {
	return screen.Shortened(t.next(), "operator", "controller", "kind", "namespace", "name", "uid", "reconcileID")
}
