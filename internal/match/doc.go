// Package match decides which handlers are selected for an object and a cause. Each handler has [Criteria] with [Filters].
//
//	refusal := criteria.MatchObject(input) // labels, annotations, owners and field values
//	if refusal.Accepts() {
//		refusal = criteria.MatchCause(cause, input) // the reason and the change of the field
//	}
//
// If a handler does not match, both functions return a [Refusal], which the engine logs at V(4) and explains to users. They have no side
// effects, and don't recover from panics in the users' tests.
//
// [Matcher] is a form of package filter's matchers that the validation of declarations can inspect.
package match
