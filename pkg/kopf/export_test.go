package kopf

// What the tests of matchers ask, which users cannot: matchers are sealed.

// Passes asks a matcher about a value in its JSON form.
func Passes(m Matcher, value any) bool { return m.matcher().test(value) }

// ParsePath splits the path of a field.
func ParsePath(path string) ([]string, error) { return parsePath(path) }
