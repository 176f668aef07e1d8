// Package engine reconciles the objects of one kind.
//
// The essence of an object is the part that counts for changes. The baseline, or last-handled configuration, is the essence with which the last cycle
// has ended. A cycle is all work for one change. Its records contain the progress of the handlers, and its pin the essence with which it has begun.
// All three are stored on the object.
//
// Package kopf declares a [Kind] and its [Settings]; the controller calls [Engine.Reconcile] with keys. A reconcile takes an object through these
// phases; see [Engine.Reconcile] in engine.go:
//
//	observe   read the object from the cache; wait if the cache is older than our own last write
//	cause     compare the last-handled configuration with the present essence (package cause)
//	plan      select the handlers, and those of them that are due (package plan)
//	invoke    call the handlers one after the other (package invoke)
//	commit    write outcomes, records and changes in as few requests as possible (package commit)
//	schedule  compute when the next handler is due (package plan)
//
// If handlers have worked for the checkpoint interval, the engine commits between two handlers. The status is written before the other fields, unless
// it contains records. The events of these writes enqueue the object again; that reconcile finds nothing to do until the next handler is due.
//
// Event handlers and the handlers of deleted objects are called before these phases. During a pause, only event handlers are called. Index handlers are
// called in the goroutine of the informer, before the object is reconciled.
//
// Daemons and timers run in goroutines of their own and write their own changes. Their changes of the essence are registered in the state of the
// object, so that the worker does not take them for updates.
//
// # Guarantees
//
// A handler whose success or permanent failure is stored is not called again for its cause. The engine makes no decision on an object that is older than its own last write.
// A cycle handles the state with which it has begun: later edits belong to the next cycle. Outcomes that could not be written are kept until the
// process ends; after a crash, their handlers are called again. Records that the API server rejects are kept in memory, and no handler waits for them.
//
// # Concurrency
//
// One worker at a time reconciles a key; daemons and timers of the object run concurrently. The handlers of an object run one after the other in the
// goroutine of the worker.
//
// # Errors
//
// Errors of handlers are stored in their records and never returned. Errors of the API server are returned, so that the queue retries with backoff.
// Conflicts are requeued and not returned as errors.
package engine
