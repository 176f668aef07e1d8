package watching

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// A NamespacePattern selects namespaces by name, with kopf's syntax: a list of globs separated by commas. The first glob must match. A
// later glob with an exclamation mark excludes names, and one without it includes names again. If the first glob has an exclamation mark,
// the pattern starts with all namespaces.
type NamespacePattern struct {
	text  string
	globs []namespaceGlob
}

type namespaceGlob struct {
	glob     string
	excludes bool
}

var namespaceGlobPattern = regexp.MustCompile(`^[a-z0-9*?\[\]!^-]+$`)

// ParseNamespacePattern parses a pattern such as "team-a", "team-*" or "team-*, !team-legacy".
func ParseNamespacePattern(text string) (NamespacePattern, error) {
	p := NamespacePattern{text: text}
	for i, one := range strings.Split(text, ",") {
		one, excludes := strings.CutPrefix(strings.TrimSpace(one), "!")
		one = strings.ReplaceAll(strings.TrimSpace(one), "[!", "[^")
		if i == 0 && excludes {
			p.globs = append(p.globs, namespaceGlob{"*", false})
		}
		if err := checkNamespaceGlob(one); err != nil {
			return p, fmt.Errorf("the namespace pattern %q can never match: %w", text, err)
		}
		p.globs = append(p.globs, namespaceGlob{one, excludes})
	}
	return p, nil
}

func checkNamespaceGlob(glob string) error {
	if glob == "" {
		return errors.New("a part is empty: use \"*\" for all namespaces")
	}
	if !namespaceGlobPattern.MatchString(glob) {
		return fmt.Errorf("the part %q must consist of lower-case letters, digits, dashes, and the wildcards *, ? and [..]", glob)
	}
	if _, err := path.Match(glob, ""); err != nil {
		return fmt.Errorf("%q: %w", glob, err)
	}
	return nil
}

// String returns the pattern's text.
func (p NamespacePattern) String() string { return p.text }

// Exact returns the namespace and true if the pattern is a single name without wildcards.
func (p NamespacePattern) Exact() (name string, ok bool) {
	if len(p.globs) != 1 || strings.ContainsAny(p.globs[0].glob, "*?[") {
		return "", false
	}
	return p.globs[0].glob, true
}

// Match reports whether the pattern selects a namespace.
func (p NamespacePattern) Match(name string) bool {
	selected := false
	for i, g := range p.globs {
		matches, _ := path.Match(g.glob, name)
		if i == 0 && !matches {
			return false
		}
		if matches {
			selected = !g.excludes
		}
	}
	return selected
}
