// Package engine reconciles the objects of one kind.
//
// An object's essence is the part of it that counts for change detection. The baseline, or last-handled configuration, is the essence that
// the last cycle ended with. A cycle is all the work for one change. Its records contain the handlers' progress, and its pin is the essence
// that it works on. Baseline, records and pin are stored on the object.
//
// Package kopf declares a [Kind] and its [Settings], and the controller calls [Engine.Reconcile] with keys. First, layers (layers.go)
// handle the key: they release objects that are out of scope, call the handlers of watch events, wait until a pause is over, and handle
// deleted objects. Inside them, the object goes through the steps of a reconcile; reconcile.go lists them in order. A layer or step that
// holds work returns a [Hold] (hold.go). Explanations, the status page and the test kit get the same holds from [Engine.Holds], which has
// no side effects.
//
// The steps belong to these phases:
//
//	observe   take the object as the informer has delivered it (package objectstate); wait if it is older than our own last write
//	cause     compare the last-handled configuration with the current essence (package cause)
//	plan      select the handlers for the cause, and the ones of them that are due now (package plan)
//	invoke    call the handlers one after the other (package invoke)
//	commit    write outcomes, records and changes in as few requests as possible (package commit)
//	schedule  compute when the next handler is due (package plan)
//
// Once handlers have worked for the checkpoint interval (100 milliseconds by default), the engine commits before it calls the next one. The
// status is written before the other fields, unless it contains records and the cycle isn't over. But if the status names the generation
// that the handlers have received, and they change the spec, then the spec is written first and the records last, so that the status
// describes the new generation. Status fields are part of the essence only if a handler reacts to them, and condition statuses only if a
// handler reacts to a condition. If a write changes such fields, the pin is written in a request before it. Other status changes leave the
// essence, the baseline and the pin as they are.
//
// Requests are JSON merge patches with the uid as a precondition. If they change lists or finalizers, they contain the resource version,
// too, so that they don't overwrite other clients' changes. The same goes for a request that follows one with an unknown outcome. Patches
// of the status subresource always contain the resource version, because the API server doesn't check the uid there. A change that sets a
// field to null is a JSON patch, which applies only to the exact state that the writer has read before.
//
// The events of these writes enqueue the object again. That reconcile sends nothing until the next handler is due.
//
// Objects come from the informer. Its event handler records each state in package objectstate, and then enqueues the key. A state that is
// older than our own last write is not handled. The object is reconciled again when the cache shows the write, or else after the
// consistency timeout (5 seconds by default). After the timeout, the reconcile reads the object from the API server. The epoch is the
// resource version at the start of the process. Until the cache has reached it, objects with due work are read from the API server as well.
//
// Index handlers are called on the informer's goroutine, before the object is reconciled. During a pause of the operator, only event
// handlers and index handlers are called.
//
// Daemons and timers run in their own goroutines and write their own changes. Their changes to the essence are recorded in the object's
// state, so that the worker doesn't take them for updates.
//
// # Example
//
// The last-handled configuration of a Database has the size 1, and a user sets the size 2. The OnUpdate handlers are "resize" and "notify",
// and both return within the checkpoint interval.
//
//	observe   the object with size 2
//	cause     Reason: update, Old: {spec: {size: 1}}, New: {spec: {size: 2}}, Diff: spec.size 1 -> 2
//	plan      Next: resize, notify. The default lifecycle calls all due handlers
//	invoke    resize returns progress.Temporary(err, time.Minute). notify succeeds and sets the phase in the status
//	commit    the first request writes the phase, with the resource version. The second one writes annotations, with the uid: the records and the pin
//	schedule  a minute, for resize
//
// A handler receives its own copies of the object and of Old, the Diff, and the number of its attempt, which starts at 0. Its changes are
// the difference between the object it received and the object after the call. They count even if the handler has failed, and the handlers
// that follow see them.
//
// After the second request, the object has these annotations. The last-handled configuration still has the size 1.
//
//	kopf.zalando.org/resize: {"started": ..., "delayed": ..., "purpose": "update", "retries": 1, "success": false, "failure": false, "message": ..., "attempted": ...}
//	kopf.zalando.org/notify: {"started": ..., "stopped": ..., "purpose": "update", "retries": 1, "success": true, "failure": false}
//	kopf.zalando.org/pinned-configuration: {"since": <digest of the last-handled configuration>, "digest": ..., "essence": {"spec": {"size": 2}}}
//
// The events of both requests enqueue the object. If the cache doesn't show the second write yet, the reconcile returns, and the object is
// reconciled again once it does. The cause is still the update then, because the object has the pin and records for an update. But no
// handler is due, so nothing is written. After a minute, the plan contains only resize, because notify's record is final. When resize
// succeeds, all handlers have finished. The transaction removes the records and the pin, and stores {spec: {size: 2}} as the last-handled
// configuration. The engine posts an Event about resize's recovery, but by default none about its temporary failure and notify's success.
// It may skip the watch event of a write that completes a cycle, such as this one, but no other events.
//
// # Creation and deletion
//
// An object without a baseline has the cause create. If a handler needs the finalizer, the first reconcile only adds it, and the event of
// that write leads to the handlers' calls. The last write of the cycle stores the baseline.
//
// If an object is being deleted, the informer's goroutine cancels the contexts of its daemons and timers. If the object has the finalizer,
// the worker detects the cause delete and calls the delete handlers without waiting for the daemons. Each daemon that returns enqueues the
// object. Once daemons and delete handlers have finished, the commit step removes the finalizer. When the object has left the cache, the
// innermost layer forgets it, and calls optional delete handlers that weren't called yet. If an object has vanished in spite of the
// finalizer, its delete handlers are called with its last known state.
//
// # Revisions
//
// Handlers can have revisions. If nothing else has happened to an object, and it was handled with a smaller one, the cause is revision. Notes
// on the objects say with which revisions they were handled (package revision), and the write that stores an outcome changes the note. A
// [Rollout] lets objects begin in portions; it also holds updates that only a change of the schema has caused.
//
// # Guarantees
//
// A handler whose success or permanent failure is stored is not called again for its cause. The engine decides nothing on an object that is
// older than its own last write. A cycle handles the state that it started with, so later edits wait for the next cycle. Outcomes that
// could not be written are kept in memory, and the next reconcile writes them; after a crash, their handlers are called again. Records that
// the API server rejects are kept in memory, and no handler waits for them.
//
// # Concurrency
//
// Only one worker at a time reconciles a key, but the object's daemons and timers run concurrently. An object's handlers run one after the
// other on the worker's goroutine.
//
// # Errors
//
// Handlers' errors are stored in their records and never returned. Errors of the API server are returned, so that the queue retries with
// backoff. Conflicts are requeued and not returned as errors.
package engine
