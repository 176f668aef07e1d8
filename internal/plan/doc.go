// Package plan decides which handlers are called for a cause, when, and in which order.
//
// [Matching] returns the handlers whose filters accept an object, and [Select] picks those to call for a cause. [Make] returns the ones
// that are due now, and [Schedule] the time until the next one is. All results depend only on the arguments. Predicates and the lifecycle
// are user code. If a predicate panics, the panic is logged and the handler doesn't match.
package plan
