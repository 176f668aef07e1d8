package diff

import (
	"slices"
	"strings"
)

// A Path is a sequence of map keys that leads to a nested value. The empty path leads to the value itself.
type Path []string

// String joins the keys with dots, as in "spec.size". The text is for logs only, because keys may contain dots.
func (p Path) String() string {
	return strings.Join(p, ".")
}

// covers reports whether the other path is equal to this path or below it.
func (p Path) covers(other Path) bool {
	return len(p) <= len(other) && slices.Equal(p, other[:len(p)])
}

// below removes the first n keys. The result is clipped, so appending to it doesn't modify the original path. An empty result is nil, so
// that empty paths are equal.
func (p Path) below(n int) Path {
	if n == len(p) {
		return nil
	}
	return slices.Clip(p[n:])
}
