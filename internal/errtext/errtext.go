package errtext

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxBytes is the maximum length of an error text.
const MaxBytes = 16 << 10

// Limit shortens an error's text to [MaxBytes]. The result wraps the error. Limit returns nil for nil.
func Limit(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if len(text) <= MaxBytes {
		return err
	}
	return &limited{err, Shorten(text, MaxBytes)}
}

type limited struct {
	err  error
	text string
}

func (e *limited) Error() string { return e.text }
func (e *limited) Unwrap() error { return e.err }

// maxListed is how many elements of a list a log line shows.
const maxListed = 50

// Some returns the start of a list, and says how many elements follow.
func Some(list []string) []string {
	if len(list) <= maxListed {
		return list
	}
	return append(slices.Clone(list[:maxListed]), fmt.Sprintf("and %d more", len(list)-maxListed))
}

// Shorten removes the middle of a text that is longer than limit bytes, because the start and the end of an error matter most. It doesn't
// split characters. Invalid UTF-8 is replaced first, since JSON encoding would replace it with something longer.
func Shorten(text string, limit int) string {
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
