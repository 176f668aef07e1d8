package progress

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// EncodeJSON encodes a value like kopf: compact and in ASCII, so that any tool preserves the text. The characters < > & are
// not escaped.
func EncodeJSON(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return escapeNonASCII(bytes.TrimSuffix(out.Bytes(), []byte("\n"))), nil
}

// escapeNonASCII escapes the non-ASCII characters in JSON text. They can occur only inside strings.
func escapeNonASCII(text []byte) []byte {
	first := bytes.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf })
	if first < 0 {
		return text
	}
	out := append(make([]byte, 0, 2*len(text)), text[:first]...)
	for rest := text[first:]; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		rest = rest[size:]
		switch {
		case r < utf8.RuneSelf:
			out = append(out, byte(r))
		case r <= 0xFFFF:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xD800+(r>>10), 0xDC00+(r&0x3FF))
		}
	}
	return out
}
