package filter

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// A Matcher tests the value of a label, an annotation or a field. Only this package can implement it; use [Match] for a custom test.
type Matcher interface {
	// Form is only for package kopf, which evaluates the matcher in this form.
	Form() match.Matcher
}

// Present passes if there is a value, including an empty one. Absent passes if there is no value.
//
// Equivalent in kopf: PRESENT, ABSENT.
const (
	Present presence = true
	Absent  presence = false
)

// Equal passes if the tested value has the same JSON form as the parameter.
//
// Equivalent in kopf: a literal.
func Equal(value any) Matcher {
	form, err := match.ToJSONValue(value)
	inner, isMatcher := value.(Matcher)
	switch {
	case isMatcher:
		err = fmt.Errorf("Equal(%s) compares with a matcher: remove Equal", inner.Form().Description)
	case err != nil:
		err = fmt.Errorf("Equal(%T): the value has no JSON form: %w", value, err)
	case form == nil:
		err = errors.New("Equal(nil) can never match: use Absent")
	}
	m := matcher{
		Description: fmt.Sprintf("Equal(%v)", value), HasEqual: true, Equal: form, Err: err,
		Test: func(is any) bool { return diff.Equal(is, form) },
	}
	if err == nil {
		m.Operands = []match.Operand{{Value: form}}
	}
	return m
}

// Match passes if the function returns true. The function receives the value in its JSON form, or nil for an absent value. It must be fast,
// free of side effects and safe for concurrent use. If it panics, the operator logs the panic and the handler doesn't match.
//
// Equivalent in kopf: a callback.
func Match(fn func(value any) bool) Matcher {
	m := matcher{Description: "Match", Test: func(value any) bool { return guard.Value("Match", func() bool { return fn(value) }) }, Opaque: true}
	if fn == nil {
		m.Err = errors.New("Match(nil): pass a function")
	}
	return m
}

// From passes if the value before a change equals want or, if want is a [Matcher], passes it. Use From in kopf.Field, for handlers that are
// called for changes.
//
// Equivalent in kopf: old=.
func From(want any) Matcher { return sided("From", want, match.Before) }

// To passes if the value after a change equals want or, if want is a [Matcher], passes it. Use To in kopf.Field, for handlers that are
// called for changes.
//
// Equivalent in kopf: new=.
func To(want any) Matcher { return sided("To", want, match.After) }

// Not passes if the matcher doesn't pass.
//
// Equivalent in kopf: not_.
func Not(m Matcher) Matcher {
	not := combined("Not", []Matcher{m}, func(passed int) bool { return passed == 0 })
	for i := range not.Operands {
		not.Operands[i].Negated = !not.Operands[i].Negated
	}
	return not
}

// All passes if all matchers pass. Without matchers, it passes.
//
// Equivalent in kopf: all_.
func All(m ...Matcher) Matcher {
	all := combined("All", m, func(passed int) bool { return passed == len(m) })
	all.All = formsOf(m)
	return all
}

// Any passes if at least one matcher passes. Without matchers, it doesn't pass.
//
// Equivalent in kopf: any_.
func Any(m ...Matcher) Matcher {
	return combined("Any", m, func(passed int) bool { return passed > 0 })
}

// None passes if no matcher passes. Without matchers, it passes.
//
// Equivalent in kopf: none_.
func None(m ...Matcher) Matcher {
	return combined("None", m, func(passed int) bool { return passed == 0 })
}

type presence bool

func (p presence) Form() match.Matcher {
	isPresent := bool(p)
	return match.Matcher{
		Description: map[presence]string{Present: "Present", Absent: "Absent"}[p], Presence: &isPresent,
		Test: func(is any) bool { return (is != nil) == isPresent },
	}
}

type matcher match.Matcher

func (m matcher) Form() match.Matcher { return match.Matcher(m) }

func formsOf(all []Matcher) []match.Matcher {
	out := make([]match.Matcher, 0, len(all))
	for _, m := range all {
		if m == nil {
			out = append(out, match.Matcher{Err: errors.New("a matcher is nil: remove it"), Test: func(any) bool { return false }})
			continue
		}
		out = append(out, m.Form())
	}
	return out
}

func sided(name string, want any, side match.Side) matcher {
	given, ok := want.(Matcher)
	if !ok {
		given = Equal(want)
	}
	m := matcher(given.Form())
	if m.Side != match.Current {
		m.Err = fmt.Errorf("%s(%s): From and To cannot be nested", name, m.Description)
	}
	m.Side, m.Description = side, fmt.Sprintf("%s(%s)", name, m.Description)
	m.Operands = slices.Clone(m.Operands)
	for i := range m.Operands {
		m.Operands[i].Side = side
	}
	return m
}

func combined(name string, all []Matcher, passes func(passed int) bool) matcher {
	inner := formsOf(all)
	var texts []string
	out := matcher{}
	orAbsent := slices.ContainsFunc(inner, match.Matcher.IsAbsent)
	for _, m := range inner {
		for _, l := range m.Operands {
			l.OrAbsent = l.OrAbsent || orAbsent
			out.Operands = append(out.Operands, l)
		}
		texts = append(texts, m.Description)
		out.Opaque = out.Opaque || m.Opaque
		if m.Err != nil {
			out.Err = m.Err
		}
		if m.Side != match.Current {
			out.Err = fmt.Errorf("%s(%s): From and To must not be arguments of another matcher: put them around it", name, m.Description)
		}
	}
	out.Description = fmt.Sprintf("%s(%s)", name, strings.Join(texts, ", "))
	out.Test = func(is any) bool {
		passed := 0
		for _, m := range inner {
			if m.Test(is) {
				passed++
			}
		}
		return passes(passed)
	}
	return out
}
