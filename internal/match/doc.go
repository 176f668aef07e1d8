// Package match decides which handlers are selected for an object and a cause. Each handler has [Criteria] with [Filters].
//
//	refusal := criteria.MatchObject(input) // labels, annotations, owners and field values
//	if refusal.Accepts() {
//		refusal = criteria.MatchCause(cause, input) // the reason and the change of the field
//	}
//
// For a handler that does not match, both functions return a [Refusal], which the engine logs at V(4) and explains to users. The
// functions have no side effects, and do not recover from panics of tests that users provide.
//
// [Matcher] is the inspectable form of the matchers of package filter, for the validation of declarations.
package match
