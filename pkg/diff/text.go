package diff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// String returns the difference as one line, such as "change spec.size: 1 -> 2". It contains the complete values as JSON. The format may
// change.
func (i Item) String() string {
	var text strings.Builder
	text.WriteString(string(i.Op))
	if len(i.Path) > 0 {
		text.WriteString(" " + oneLine(i.Path.String()))
	}
	text.WriteString(": ")
	switch i.Op {
	case Add:
		text.WriteString(valueText(i.New))
	case Remove:
		text.WriteString(valueText(i.Old))
	default:
		text.WriteString(valueText(i.Old) + " -> " + valueText(i.New))
	}
	return text.String()
}

// String returns one line per difference, without a final newline. The format may change.
func (d Diff) String() string {
	lines := make([]string, len(d))
	for i, item := range d {
		lines[i] = item.String()
	}
	return strings.Join(lines, "\n")
}

func valueText(value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // "a<b" is easier to read than "a\u003cb"
	if err := encoder.Encode(value); err != nil {
		// NaN, infinities and values of some types, such as channels, have no JSON form.
		return oneLine(fmt.Sprint(value))
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// oneLine quotes a text with line breaks or other control characters.
func oneLine(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
