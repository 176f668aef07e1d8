package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-runtime/kopf-runtime/hack/demo/program"
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

// shortened leaves out the fields that are the same in all lines here, and the date.
func shortened(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = shorten(line)
	}
	return out
}

// shorten reads a line of zap's console encoder: time, level, perhaps a name, message, fields.
func shorten(line string) string {
	parts := strings.Split(line, "\t")
	if len(parts) < 3 {
		return line // of a stack, or from somebody else
	}
	if _, clock, found := strings.Cut(parts[0], "T"); found {
		parts[0] = clock[:min(len(clock), len("15:04:05.000"))]
	}
	last := len(parts) - 1
	if fields, ok := pairs(parts[last]); ok {
		parts[last] = fields
	}
	return strings.Join(parts, "  ")
}

var omitted = []string{"controller", "kind", "namespace", "name", "uid", "reconcileID"}

// pairs writes the fields of a log line as key=value.
func pairs(text string) (string, bool) {
	decoder := json.NewDecoder(strings.NewReader(text))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return "", false
	}
	var out []string
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return "", false
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return "", false
		}
		if name := fmt.Sprint(key); !slices.Contains(omitted, name) {
			out = append(out, name+"="+plain(value))
		}
	}
	return strings.Join(out, " "), true
}

// plain leaves out the quotes where nothing needs them.
func plain(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && text != "" && !strings.ContainsAny(text, " \"\\\n\t=") {
		return text
	}
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil {
		return string(value)
	}
	return compact.String()
}
