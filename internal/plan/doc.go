// Package plan decides which handlers are called for a cause, when, and in which order.
//
// [Matching] returns the handlers whose filters accept an object. [Select] returns those of them that are called for a cause. [Make] returns the
// handlers that are due now, [Schedule] the time until the next one is due. All of these are functions of their arguments. Only the predicates
// and the lifecycle are code of users: a panic of a predicate is logged, and its handler does not match.
package plan
