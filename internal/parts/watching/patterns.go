package watching

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Resource is a kind that the API server serves, in one version.
type Resource struct {
	schema.GroupVersionKind
	Plural, Singular       string
	ShortNames, Categories []string
	Verbs                  []string
	Namespaced             bool
	Preferred              bool // the API server prefers this version of the kind
}

// IsWatchable reports whether the kind supports list and watch.
func (r Resource) IsWatchable() bool {
	return slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
}

// isEvent reports whether these are Kubernetes Events. Names with wildcards don't select them.
func (r Resource) isEvent() bool {
	return r.Kind == "Event" && (r.Group == "" || r.Group == "events.k8s.io")
}

// A Pattern selects kinds by name.
type Pattern struct {
	text                   string
	name                   string // a glob for the plural, singular, kind or short name; empty for a category
	category               string
	version                string // empty for the preferred version
	group                  string // a glob
	hasGroup, hasWildcards bool
}

var versionPattern = regexp.MustCompile(`^v\d+((alpha|beta)\d+)?$`)

// categoryPrefix marks a name as a category.
const categoryPrefix = "category:"

// ParsePatterns parses patterns of the forms name, name.group, name.version, name.version.group and category:name. Names and groups can
// contain the wildcards of [path.Match]. All errors are returned, joined.
func ParsePatterns(texts ...string) ([]Pattern, error) {
	var patterns []Pattern
	var errs []error
	if len(texts) == 0 {
		errs = append(errs, errors.New("there are no patterns: pass at least one, such as \"databases.example.com\""))
	}
	for _, text := range texts {
		p, err := parse(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("the pattern %q can never match: %w", text, err))
		}
		patterns = append(patterns, p)
	}
	return patterns, errors.Join(errs...)
}

func parse(text string) (Pattern, error) {
	p := Pattern{text: text}
	if category, ok := strings.CutPrefix(text, categoryPrefix); ok {
		p.category = category
		if category == "" {
			return p, errors.New("the category has no name")
		}
		_, err := path.Match(category, "")
		return p, err
	}
	p.name, p.group, p.hasGroup = strings.Cut(text, ".")
	if version, group, _ := strings.Cut(p.group, "."); versionPattern.MatchString(version) {
		p.version, p.group, p.hasGroup = version, group, group != ""
	}
	switch {
	case p.name == "":
		return p, errors.New("it has no name: write \"*\" for all kinds of a group")
	case strings.ContainsAny(text, " /"):
		return p, errors.New("it contains a space or a slash: use the form name.version.group")
	case p.hasGroup && p.group == "":
		return p, errors.New("it has no group after the dot: remove the dot, or write the version, as in \"pods.v1\"")
	}
	for _, glob := range []string{p.name, p.group} {
		if _, err := path.Match(glob, ""); err != nil {
			return p, fmt.Errorf("%q: %w", glob, err)
		}
	}
	p.hasWildcards = strings.ContainsAny(p.name, "*?[")
	return p, nil
}

// String returns the pattern's text.
func (p Pattern) String() string { return p.text }

// GroupResource returns the pattern's resource for an RBAC rule, with "*" for a name with wildcards. For the pattern "*", the group is "*"
// as well. ok is false for a category, for a name with upper-case letters, and if the group is missing or has wildcards.
func (p Pattern) GroupResource() (gr schema.GroupResource, ok bool) {
	gr = schema.GroupResource{Group: p.group, Resource: p.name}
	if p.hasWildcards {
		gr.Resource = "*"
	}
	if p.name == "*" && !p.hasGroup && p.version == "" {
		gr.Group = "*"
		return gr, true
	}
	return gr, p.category == "" && p.hasGroup && !strings.ContainsAny(p.group, "*?[") && p.name == strings.ToLower(p.name)
}

// isSpecific reports whether the pattern is meant for a single kind.
func (p Pattern) isSpecific() bool { return p.category == "" && !p.hasWildcards }

func (p Pattern) matches(r Resource) bool {
	switch {
	case p.category == "" && p.hasWildcards && r.isEvent():
		return false
	case p.version != "" && p.version != r.Version || p.version == "" && !r.Preferred:
		return false
	case p.hasGroup && !matchesGlob(p.group, r.Group):
		return false
	case p.category != "":
		return slices.ContainsFunc(r.Categories, func(category string) bool { return matchesGlob(p.category, category) })
	}
	names := append([]string{r.Plural, r.Singular, r.Kind}, r.ShortNames...)
	return slices.ContainsFunc(names, func(name string) bool { return matchesGlob(p.name, name) })
}

func matchesGlob(glob, name string) bool {
	matches, _ := path.Match(glob, name) // parse has checked the syntax
	return matches
}

// Everything returns all watchable kinds in their preferred versions, except Events.
func Everything(served []Resource) (all []Resource) {
	for _, r := range served {
		if r.IsWatchable() && r.Preferred && !r.isEvent() {
			all = append(all, r)
		}
	}
	return all
}

// An Ambiguity is a pattern that selects nothing because it matches several kinds.
type Ambiguity struct {
	Pattern Pattern
	Kinds   []Resource
}

func (a Ambiguity) Error() string {
	names := make([]string, len(a.Kinds))
	for i, r := range a.Kinds {
		names[i] = strings.TrimSuffix(r.Plural+"."+r.Group, ".")
	}
	return fmt.Sprintf("the pattern %q matches several kinds (%s): add the group", a.Pattern, strings.Join(names, ", "))
}

// Select returns the watchable kinds that the patterns select, and the patterns that select nothing because they are ambiguous.
func Select(patterns []Pattern, served []Resource) (selected []Resource, ambiguous []Ambiguity) {
	for _, p := range patterns {
		var matching []Resource
		for _, r := range served {
			if r.IsWatchable() && p.matches(r) {
				matching = append(matching, r)
			}
		}
		if p.isSpecific() {
			if matching = preferCore(matching); len(matching) > 1 {
				ambiguous = append(ambiguous, Ambiguity{p, matching})
				continue
			}
		}
		for _, r := range matching {
			if !slices.ContainsFunc(selected, func(s Resource) bool { return s.GroupVersionKind == r.GroupVersionKind }) {
				selected = append(selected, r)
			}
		}
	}
	return selected, ambiguous
}

// preferCore returns only the kinds in the core group, or all kinds if that group has none.
func preferCore(matching []Resource) []Resource {
	core := slices.DeleteFunc(slices.Clone(matching), func(r Resource) bool { return r.Group != "" })
	if len(core) > 0 {
		return core
	}
	return matching
}
