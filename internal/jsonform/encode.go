package jsonform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth limits how deep values may be nested, because a map may contain itself. It is the limit that encoding/json has for decoding.
const maxDepth = 10000

var errTooDeep = errors.New("the value is nested too deeply, or contains itself")

// Encode encodes a value like encoding/json: compact, and with sorted keys. It doesn't escape the characters < > &. Types that don't occur
// in decoded JSON are left to encoding/json.
func Encode(value any) ([]byte, error) { return encoder{}.encode(value) }

// EncodeASCII is like [Encode], but escapes all non-ASCII characters.
func EncodeASCII(value any) ([]byte, error) { return encoder{ascii: true}.encode(value) }

type encoder struct {
	ascii bool // escape all non-ASCII characters
}

func (e encoder) encode(value any) ([]byte, error) { return e.append(make([]byte, 0, 256), value, 0) }

func (e encoder) append(out []byte, value any, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	switch v := value.(type) {
	case nil:
		return append(out, "null"...), nil
	case string:
		return e.appendString(out, v), nil
	case bool:
		return strconv.AppendBool(out, v), nil
	case int64:
		return strconv.AppendInt(out, v, 10), nil
	case map[string]any:
		return e.appendMap(out, v, depth)
	case []any:
		return e.appendList(out, v, depth)
	default:
		return e.appendOther(out, v)
	}
}

func (e encoder) appendMap(out []byte, fields map[string]any, depth int) (_ []byte, err error) {
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
		out = append(e.appendString(out, key), ':')
		if out, err = e.append(out, fields[key], depth+1); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

func (e encoder) appendList(out []byte, items []any, depth int) (_ []byte, err error) {
	if items == nil {
		return append(out, "null"...), nil
	}
	out = append(out, '[')
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = e.append(out, item, depth+1); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}

// appendOther lets encoding/json encode a value.
func (e encoder) appendOther(out []byte, value any) ([]byte, error) {
	var encoded bytes.Buffer
	standard := json.NewEncoder(&encoded)
	standard.SetEscapeHTML(false)
	if err := standard.Encode(value); err != nil {
		return nil, err
	}
	text := bytes.TrimSuffix(encoded.Bytes(), []byte("\n"))
	if !e.ascii {
		return append(out, text...), nil
	}
	for _, r := range string(text) {
		if r < utf8.RuneSelf {
			out = append(out, byte(r))
		} else {
			out = appendEscape(out, r) // encoded JSON has non-ASCII characters only in strings
		}
	}
	return out, nil
}

// appendString appends a string with the same escapes as encoding/json. Invalid UTF-8 becomes the replacement character.
func (e encoder) appendString(out []byte, text string) []byte {
	out = append(out, '"')
	start := 0 // index of the first character that is not appended yet
	for i := 0; i < len(text); {
		if b := text[i]; b >= ' ' && b < utf8.RuneSelf && b != '"' && b != '\\' {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if e.mustEscape(r, size) {
			out = appendEscape(append(out, text[start:i]...), r)
			start = i + size
		}
		i += size
	}
	return append(append(out, text[start:]...), '"')
}

// mustEscape reports whether to escape a character with the given number of bytes. It isn't called for plain ASCII.
func (e encoder) mustEscape(r rune, size int) bool {
	return e.ascii || r < utf8.RuneSelf || r == utf8.RuneError && size == 1 || r == '\u2028' || r == '\u2029'
}

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
