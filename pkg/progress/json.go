package progress

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// EncodeJSON encodes a value like kopf: compact, with sorted keys, and in ASCII, so that any tool preserves the text. The characters < > & are
// not escaped. Decoded JSON, such as a map[string]any, is encoded without reflection.
func EncodeJSON(value any) ([]byte, error) { return appendJSON(make([]byte, 0, 256), value) }

// appendJSON appends the encoded value. If the value cannot be encoded, it returns an error.
func appendJSON(out []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(out, "null"...), nil
	case string:
		return appendString(out, v), nil
	case bool:
		return strconv.AppendBool(out, v), nil
	case int64:
		return strconv.AppendInt(out, v, 10), nil
	case map[string]any:
		return appendMap(out, v)
	case []any:
		return appendList(out, v)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	for _, r := range string(bytes.TrimSuffix(text.Bytes(), []byte("\n"))) {
		if r < utf8.RuneSelf {
			out = append(out, byte(r))
		} else { // it is part of a string
			out = appendEscape(out, r)
		}
	}
	return out, nil
}

func appendMap(out []byte, fields map[string]any) (_ []byte, err error) {
	if fields == nil {
		return append(out, "null"...), nil
	}
	var buffer [16]string // enough for most maps
	keys := slices.AppendSeq(buffer[:0], maps.Keys(fields))
	slices.Sort(keys)
	out = append(out, '{')
	for i, key := range keys {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendString(out, key), ':')
		if out, err = appendJSON(out, fields[key]); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

func appendList(out []byte, items []any) (_ []byte, err error) {
	if items == nil {
		return append(out, "null"...), nil
	}
	out = append(out, '[')
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = appendJSON(out, item); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}

// appendString appends a string with the escapes of encoding/json. Invalid UTF-8 becomes the replacement character.
func appendString(out []byte, text string) []byte {
	out = append(out, '"')
	start := 0 // of the characters that are not appended yet
	for i := 0; i < len(text); {
		if b := text[i]; b >= ' ' && b < utf8.RuneSelf && b != '"' && b != '\\' {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		out = appendEscape(append(out, text[start:i]...), r)
		i += size
		start = i
	}
	return append(append(out, text[start:]...), '"')
}

// appendEscape appends the escape of a character.
func appendEscape(out []byte, r rune) []byte {
	if i := strings.IndexRune("\"\\\b\f\n\r\t", r); i >= 0 {
		return append(out, '\\', `"\bfnrt`[i])
	}
	if r <= 0xFFFF {
		return fmt.Appendf(out, `\u%04x`, r)
	}
	r -= 0x10000
	return fmt.Appendf(out, `\u%04x\u%04x`, 0xD800+(r>>10), 0xDC00+(r&0x3FF))
}
