// Package commit writes the changes of a reconcile.
//
// A [Draft] is an object with handlers' changes that aren't written yet. A [Builder] turns a cause, the records and the handlers' patches
// into a [Transaction]. It contains the handlers' changes and the framework's part: records, last-handled configuration and pin. The
// builder needs neither a context nor a client.
//
// A [Session] sends the transactions of one reconcile. It finds out which patches the API server rejects, reverts what was already written
// of them, and keeps rejected progress in memory. If the operator has a [progress.Remote], the session saves the framework's part there. A
// [Result] says what a write has done. If it is pending, the caller must retry the write before deciding anything else.
//
// When our own write raises the generation, the session also raises the observed generation in the status, in the places that [Observed]
// knows. [Session.Raised] returns the generations that only our own writes have superseded.
package commit
