package guard

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxTextBytes is the maximum length of an error text.
const MaxTextBytes = 16 << 10

// ShortenError shortens an error's text to [MaxTextBytes]. The result wraps the error. ShortenError returns nil for nil.
func ShortenError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if len(text) <= MaxTextBytes {
		return err
	}
	return &limited{err, ShortenText(text, MaxTextBytes)}
}

type limited struct {
	err  error
	text string
}

func (e *limited) Error() string { return e.text }
func (e *limited) Unwrap() error { return e.err }

// maxListed is how many elements of a list a log line shows.
const maxListed = 50

// ShortenList returns the start of a list, and says how many elements follow.
func ShortenList(list []string) []string {
	if len(list) <= maxListed {
		return list
	}
	return append(slices.Clone(list[:maxListed]), fmt.Sprintf("and %d more", len(list)-maxListed))
}

// ShortenText removes the middle of a text that is longer than limit bytes, because the start and the end of an error matter most. It
// doesn't split characters. Invalid UTF-8 is replaced first, since JSON encoding would replace it with something longer.
func ShortenText(text string, limit int) string {
	const gap = "..."
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	if len(text) <= limit {
		return text
	}
	head := (limit - len(gap)) / 2
	tail := len(text) - (limit - len(gap) - head)
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + gap + text[tail:]
}
