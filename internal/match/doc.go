// Package match tells which handlers want to be called: why did my handler not run?
//
// # Flow
//
// Each handler has its [Criteria]. Whether an object is any of its business is for [Filters.Prematch] to
// say; whether what has happened is, for [Criteria.Match]. The engine calls the handlers for which both are
// true, and logs the refusals, with their reasons, at V(4).
//
// # Guarantees
//
// Calculations only: matching has no effects, and may be repeated.
//
// # Assumptions
//
// Reasons are the words of package causation. Objects are decoded JSON. Tests do not change what they are shown.
//
// # Caveats
//
// A resume handler joins the first cause of an object in the process, whatever it is. That a creation
// is never the first cause in this sense is up to the caller. A test that panics is the caller's to catch.
//
// # Errors
//
// None: a refusal is an answer.
package match
