package diff

import (
	"slices"
	"strings"
)

// Path is the sequence of map keys leading to a nested value. The empty path
// leads to the value itself.
type Path []string

// String joins the keys with dots, as in "spec.size". The empty path is "".
// The text is for people: keys may contain dots of their own.
func (p Path) String() string {
	return strings.Join(p, ".")
}

// covers reports whether the other path leads to the same place or below it.
func (p Path) covers(other Path) bool {
	return len(p) <= len(other) && slices.Equal(p, other[:len(p)])
}

// below drops the first n keys. The result is clipped, so that appending to it
// can never write into the path it was taken from, and it is nil when empty, so
// that empty paths look the same wherever they come from.
func (p Path) below(n int) Path {
	if n == len(p) {
		return nil
	}
	return slices.Clip(p[n:])
}
