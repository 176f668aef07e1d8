package diff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// String describes the difference in one line, as in "change spec.size: 1 -> 2".
// Values are written as JSON, in full. The format is for people and may change.
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

// String describes the differences one per line, without a newline at the end.
// It is "" if there are none. The format is for people and may change.
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
		// NaN, infinities and foreign types may have no JSON.
		return oneLine(fmt.Sprint(value))
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// oneLine keeps line breaks and terminal controls, if any, out of the text.
func oneLine(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
