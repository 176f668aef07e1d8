// Package execution calls handlers: one attempt each, with a logger, counted, and a word in the log
// about how it ended.
//
// # Flow
//
// The engine describes the [Call]; [Invoke] leaves the judgement to the handler's policy, and
// reports the outcome.
//
// # Guarantees
//
// A panic of a handler does not leave this package. Expected errors are logged without a stack,
// unknown ones with.
//
// # Assumptions
//
// The context carries the object's logger.
//
// # Caveats
//
// A handler that does not look at its context is waited for.
//
// # Errors
//
// They are values here: see progress.Outcome.
package execution
