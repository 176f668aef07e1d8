// Package engine reconciles the objects of one kind.
//
// The essence of an object is the part that counts for changes. The baseline, or last-handled configuration, is the essence with which the last cycle
// has ended. A cycle is all work for one change. Its records contain the progress of the handlers, and its pin the essence with which it has begun.
// The baseline, the records and the pin are stored on the object.
//
// Package kopf declares a [Kind] and its [Settings]; the controller calls [Engine.Reconcile] with keys. Layers (layers.go) handle the key: they release objects
// that are out of scope, call the handlers of watch events, wait for the end of a pause, and handle deleted objects. Within them, the object goes through the steps
// of reconcile.go, whose list is the order of a reconcile. A layer or a step that keeps back work returns a [Hold] (hold.go). Explanations, the status page and the test
// kit read the same holds with [Engine.Holds], which has no effects.
//
// The steps belong to these phases:
//
//	observe   take the object as the informer has delivered it (package objectstate); wait if it is older than our own last write
//	cause     compare the last-handled configuration with the present essence (package cause)
//	plan      select the handlers, and those of them that are due (package plan)
//	invoke    call the handlers one after the other (package invoke)
//	commit    write outcomes, records and changes in as few requests as possible (package commit)
//	schedule  compute when the next handler is due (package plan)
//
// If handlers have worked for the checkpoint interval (100 milliseconds by default), the engine commits between two handlers. The status is written before the
// other fields, unless it contains records and the cycle is not over. If the status names the generation that the handlers have received, and they change the
// spec, the spec is written first, and the records last: the status then describes the new generation. Fields of the status are part of the essence only if a
// handler reacts to them. The statuses of conditions are part of it if a handler reacts to a condition. If a write changes such fields, the pin is written in a
// request before it. Other changes of the status leave the essence, the baseline and the pin as they are.
//
// Requests are JSON merge patches with the uid as a precondition. They also contain the resource version if they change lists or finalizers, so that they do
// not overwrite changes of other clients, and after a request with an unknown outcome. Patches of the status subresource always contain the resource
// version, because the API server does not check the uid there. A change that sets a field to null is a JSON patch, for exactly the state of the object that the
// writer has read before.
//
// The events of these writes enqueue the object again. That reconcile sends nothing until the next handler is due.
//
// Objects come from the informer. Its event handler records each state in package objectstate, and then enqueues the key. A state that is older than our own
// last write is not handled: the reconcile ends with a delay, the consistency timeout (5 seconds by default), and the event of the write enqueues the key
// earlier. After the timeout, the reconcile reads the object from the API server. The epoch is the resource version at the start of the process: until the
// cache has reached it, objects with due work are also read from the API server.
//
// Index handlers are called in the goroutine of the informer, before
// the object is reconciled. During a pause of the operator, only event handlers and index handlers are called.
//
// Daemons and timers run in goroutines of their own and write their own changes. Their changes of the essence are registered in the state of the
// object, so that the worker does not detect them as updates.
//
// # Example
//
// The last-handled configuration of a Database has the size 1, and a user sets the size 2. The OnUpdate handlers are "resize" and "notify", and both return
// within the checkpoint interval.
//
//	observe   the object with size 2
//	cause     Reason: update, Old: {spec: {size: 1}}, New: {spec: {size: 2}}, Diff: spec.size 1 -> 2
//	plan      Next: resize, notify. The default lifecycle calls all due handlers
//	invoke    resize returns progress.Temporary(err, time.Minute). notify succeeds and sets the phase in the status
//	commit    the first request writes the phase, with the resource version. The second one writes annotations, with the uid: the records and the pin
//	schedule  a minute, for resize
//
// A handler receives its own copies of the object and of Old, the Diff, and the number of its attempt, which starts at 0. Its changes are the difference
// between the object that it has received and the object after the call. They are taken also if the handler has failed, and the following handlers see them.
//
// These are the annotations after the second request. The last-handled configuration still has the size 1.
//
//	kopf.zalando.org/resize: {"started": ..., "delayed": ..., "purpose": "update", "retries": 1, "success": false, "failure": false, "message": ..., "attempted": ...}
//	kopf.zalando.org/notify: {"started": ..., "stopped": ..., "purpose": "update", "retries": 1, "success": true, "failure": false}
//	kopf.zalando.org/pinned-configuration: {"since": <digest of the last-handled configuration>, "digest": ..., "essence": {"spec": {"size": 2}}}
//
// The events of the two requests enqueue the object. If the cache does not show the second write yet, the reconcile ends, and the object is reconciled again
// when the cache shows that write. The cause is then still the update, because the object has the pin and records for an update. No handler is due, and nothing
// is written. After a minute, the plan contains only resize, because the record of notify is final. When resize succeeds, all handlers have finished. The
// transaction removes the records and the pin, and stores {spec: {size: 2}} as the last-handled configuration. The engine posts an Event about the recovery of
// resize; by default, it posts none about the temporary failure and the success of notify. It may skip the watch event of a write that ends a cycle, such as
// this one, but no other events.
//
// # Creation and deletion
//
// An object without a baseline has the cause create. If a handler needs the finalizer, the reconcile adds it and ends, and the event of that write calls the handlers. The last
// write of the cycle stores the baseline.
//
// If an object is being deleted, the goroutine of the informer cancels the contexts of its daemons and timers. The worker detects the cause delete if the object has
// the finalizer, and calls the delete handlers without waiting for the daemons. When both have finished, the write of the step commit removes the finalizer; the end
// of a daemon enqueues the object. When the object has left the cache, the innermost layer forgets it, and calls optional delete handlers that were not called yet.
// If an object has vanished in spite of the finalizer, its delete handlers are called with its last known state.
//
// # Guarantees
//
// A handler whose success or permanent failure is stored is not called again for its cause. The engine makes no decision on an object that is older than its
// own last write. A cycle handles the state with which it has begun: later edits belong to the next cycle. Outcomes that could not be written are kept in
// memory, and the next reconcile writes them; after a crash, their handlers are called again. Records that the API server rejects are kept in memory, and no
// handler waits for them.
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
