package screen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Shortened removes the date and the named fields from log lines.
func Shortened(lines []string, omitted ...string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = shorten(line, omitted)
	}
	return out
}

// shorten shortens a line of zap's console encoder. Tabs separate the time, the level, an optional name, the message and the
// fields.
func shorten(line string, omitted []string) string {
	parts := strings.Split(line, "\t")
	if len(parts) < 3 {
		return line // line of a stack trace or of another program
	}
	if _, clock, found := strings.Cut(parts[0], "T"); found {
		parts[0] = clock[:min(len(clock), len("15:04:05.000"))]
	}
	last := len(parts) - 1
	if fields, ok := pairs(parts[last], omitted); ok {
		parts[last] = fields
	}
	return strings.Join(parts, "  ")
}

// pairs converts the fields of a log line to key=value pairs.
func pairs(text string, omitted []string) (string, bool) {
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

// plain returns a JSON value without unnecessary quotes and spaces.
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
