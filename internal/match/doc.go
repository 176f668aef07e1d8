// Package match tells which handlers want to be called: why did my handler not run?
//
// # Flow
//
// Each handler has its [Criteria]; for each cause the engine describes the [Situation], and calls
// the handlers for which [Criteria.Match] is true. It logs the refusals, with their reasons, at V(4).
//
// # Guarantees
//
// Calculations only: matching has no effects, and may be repeated.
//
// # Assumptions
//
// Reasons are the words of package causation.
//
// # Caveats
//
// A resume handler joins the first cause of an object in the process, whatever it is. That a creation
// is never the first cause in this sense is up to the caller.
//
// # Errors
//
// None: a refusal is an answer.
package match
