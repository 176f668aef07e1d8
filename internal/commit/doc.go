// Package commit writes the changes of a reconcile.
//
// A [Draft] is an object with the changes of handlers that are not written yet. A [Builder] converts a cause, the records and the handler patches to a
// [Transaction]: the changes of handlers and the framework's part, which are records, last-handled configuration and pin. The builder takes neither a
// context nor a client.
//
// A [Session] sends the transactions of one reconcile. It finds the patches that the API server rejects, reverts what was written of them, and keeps
// rejected progress in memory. If the operator has a [progress.Remote], the session saves the framework's part there. A [Result] says what a
// write has done; the caller must repeat a pending one before its next decision.
//
// If our own write raises the generation, the places of [Observed] in the status get the new one. [Session.Raised] has the generations that only our writes have
// ended.
package commit
