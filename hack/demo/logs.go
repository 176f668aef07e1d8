package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-runtime/kopf-runtime/hack/demo/program"
	"github.com/kopf-runtime/kopf-runtime/hack/demo/screen"
)

// A logTail reads the output of a program, from one look to the next.
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

// missing is "" when there is a line, not yet seen, that contains all the words.
func (t *logTail) missing(words ...string) string {
	if slices.ContainsFunc(t.unseen(), func(line string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) })
	}) {
		return ""
	}
	return fmt.Sprintf("its log has no line with %q", words)
}

// shortened leaves out the fields that are the same in all lines of the demo, and the date.
func (t *logTail) shortened() []string {
	return screen.Shortened(t.next(), "operator", "controller", "kind", "namespace", "name", "uid", "reconcileID")
}
