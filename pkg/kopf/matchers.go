package kopf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// A Matcher is a test of one value, for [Label], [Annotation] and [Field].
type Matcher interface{ matcher() matcher }

// Present passes if there is a value, an empty one, too; Absent if there is none. kopf: PRESENT, ABSENT.
const (
	Present presence = true
	Absent  presence = false
)

// Equal passes if the value is the same in its JSON form. kopf: a literal.
func Equal(value any) Matcher {
	form, err := jsonForm(value)
	inner, isMatcher := value.(Matcher)
	switch {
	case isMatcher:
		err = fmt.Errorf("Equal(%s) compares with a matcher: leave Equal out", inner.matcher().text)
	case err != nil:
		err = fmt.Errorf("Equal(%T) is given what has no JSON form: %w", value, err)
	case form == nil:
		err = fmt.Errorf("Equal(nil) is no value to be equal to: use Absent")
	}
	m := matcher{
		text: fmt.Sprintf("Equal(%v)", value), hasEqual: true, equal: form, err: err,
		test: func(is any) bool { return diff.Equal(is, form) },
	}
	if err == nil {
		m.literals = []literal{{value: form}}
	}
	return m
}

// Match passes if the function says so. It gets the value in its JSON form, nil for an absent one, and must
// be quick and without effects; one that panics does not match. kopf: a callback.
func Match(fn func(value any) bool) Matcher {
	m := matcher{text: "Match", test: fn}
	if fn == nil {
		m.err = fmt.Errorf("Match(nil): give it a function")
	}
	return m
}

// From passes if the value before the change is the given one; or passes, if that is a [Matcher]. For the
// fields of handlers that are told of changes. kopf: old=.
func From(want any) Matcher { return sided("From", want, before) }

// To passes if the value after the change is the given one; or passes, if that is a [Matcher]. For the
// fields of handlers that are told of changes. kopf: new=.
func To(want any) Matcher { return sided("To", want, after) }

// Not passes if the matcher does not. kopf: not_.
func Not(m Matcher) Matcher {
	return combined("Not", []Matcher{m}, func(passed int) bool { return passed == 0 })
}

// All passes if all matchers do; without any, it does. kopf: all_.
func All(m ...Matcher) Matcher {
	all := combined("All", m, func(passed int) bool { return passed == len(m) }).matcher()
	all.all = matchersOf(m)
	return all
}

// Any passes if at least one matcher does; without any, it does not. kopf: any_.
func Any(m ...Matcher) Matcher {
	return combined("Any", m, func(passed int) bool { return passed > 0 })
}

// None passes if no matcher does; without any, it does. kopf: none_.
func None(m ...Matcher) Matcher {
	return combined("None", m, func(passed int) bool { return passed == 0 })
}

type presence bool

func (p presence) matcher() matcher {
	return matcher{
		text: map[presence]string{Present: "Present", Absent: "Absent"}[p], presence: &p,
		test: func(is any) bool { return (is != nil) == bool(p) },
	}
}

// A side is which of two values a matcher is about.
type side int

const (
	now side = iota
	before
	after
)

type matcher struct {
	text     string // for errors
	test     match.Test
	side     side
	presence *presence // that is all it asks for
	hasEqual bool
	equal    any       // that is all it asks for
	all      []matcher // each of them has to pass: those of All
	literals []literal // all values that it compares with, also within other matchers
	err      error
}

func (m matcher) matcher() matcher { return m }

// parts are the matchers that have to pass for this one to pass: those within All, or itself.
func (m matcher) parts() (parts []matcher) {
	if len(m.all) == 0 {
		return []matcher{m}
	}
	for _, inner := range m.all {
		inner.side = m.side
		parts = append(parts, inner.parts()...)
	}
	return parts
}

func matchersOf(all []Matcher) []matcher {
	out := make([]matcher, 0, len(all))
	for _, m := range all {
		if m == nil {
			out = append(out, matcher{err: fmt.Errorf("a matcher is nil: leave it out"), test: func(any) bool { return false }})
			continue
		}
		out = append(out, m.matcher())
	}
	return out
}

func sided(name string, want any, s side) Matcher {
	given, ok := want.(Matcher)
	if !ok {
		given = Equal(want)
	}
	m := given.matcher()
	if m.side != now {
		m.err = fmt.Errorf("%s(%s): From and To cannot be nested", name, m.text)
	}
	m.side, m.text = s, fmt.Sprintf("%s(%s)", name, m.text)
	m.literals = slices.Clone(m.literals)
	for i := range m.literals {
		m.literals[i].side = s
	}
	return m
}

func combined(name string, all []Matcher, verdict func(passed int) bool) Matcher {
	inner := matchersOf(all)
	var texts []string
	out := matcher{}
	orAbsent := slices.ContainsFunc(inner, func(m matcher) bool { return m.presence != nil && *m.presence == Absent })
	for _, m := range inner {
		for _, l := range m.literals {
			l.orAbsent = l.orAbsent || orAbsent
			out.literals = append(out.literals, l)
		}
		texts = append(texts, m.text)
		if m.err != nil {
			out.err = m.err
		}
		if m.side != now {
			out.err = fmt.Errorf("%s(%s): put From and To around it, not into it", name, m.text)
		}
	}
	out.text = fmt.Sprintf("%s(%s)", name, strings.Join(texts, ", "))
	out.test = func(is any) bool {
		passed := 0
		for _, m := range inner {
			if m.test(is) {
				passed++
			}
		}
		return verdict(passed)
	}
	return out
}

// contradict reports whether no value can pass both; or no change, if they are about its two sides.
func contradict(a, b matcher) bool {
	present := func(m matcher) bool { return m.hasEqual || m.presence != nil && *m.presence == Present }
	absent := func(m matcher) bool { return m.presence != nil && *m.presence == Absent }
	switch {
	case a.side == b.side:
		return absent(a) && present(b) || present(a) && absent(b) ||
			a.hasEqual && b.hasEqual && !diff.Equal(a.equal, b.equal)
	case a.side != now && b.side != now:
		return absent(a) && absent(b) || a.hasEqual && b.hasEqual && diff.Equal(a.equal, b.equal)
	default:
		return false
	}
}

// parsePath splits a dotted path into its keys.
func parsePath(path string) ([]string, error) {
	const dot = "\x00"
	keys := strings.Split(strings.ReplaceAll(path, `\.`, dot), ".")
	for i, key := range keys {
		keys[i] = strings.ReplaceAll(key, dot, ".")
	}
	if !slices.Contains(keys, "") {
		return keys, nil
	}
	hint := ""
	if whole := slices.DeleteFunc(keys, func(key string) bool { return key == "" }); len(whole) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", joined(whole))
	}
	return nil, fmt.Errorf(`the path has an empty key: use one such as "spec.size", with "\." for a dot within a key%s`, hint)
}
