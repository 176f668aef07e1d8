// Package plan decides which handlers are called for a cause, when, and in which order.
//
// [Matching] returns the handlers whose filters accept an object. [Select] returns the matching handlers that are called for a cause. [Make] returns
// the handlers that are due now. [Schedule] returns the time until the next one is due. The results depend only on the arguments. Predicates and the
// lifecycle are code of users. If a predicate panics, the package logs the panic, and the handler does not match.
package plan
