// Package engine takes objects through the cycle: from what is seen to what is called and written.
//
// # Flow
//
// Read engine.go: each step of a cycle is a method in a file of its own. The facade describes the
// [Kind] and the [Settings]; the controller calls [Engine.Reconcile] with names.
//
//	load → settle → useOverlay → detect → filter → attend → hold → accompany → match → plan → run → level → finish (report, record, write) → schedule
//
// Before that, those who only watch are shown what was observed (spy.go), and the objects that are gone are
// buried. During a pause that is all (pause.go). Indexes are kept on the informer's time, before anybody is woken, and what
// accompanies an object is stopped then if that is being deleted (witness.go).
//
// Daemons and timers run beside the workers, and write for themselves (background.go, iterate.go). What they change in the
// essence is told to the worker, to which it is no update (companion.go).
//
// # Guarantees
//
// No handler that is recorded as done is called again for its cause. No decision is made on an
// object older than our own last write. A cycle is about the state that it has begun with (pin.go): what is
// edited meanwhile is the next one's. Nothing that handlers did is forgotten because a write
// failed, as long as the process lives; if it dies, the last handlers are called again. Records that the API
// server rejects are kept in memory (overlay.go), and nothing waits for them.
//
// # Assumptions
//
// One worker at a time handles a name; daemons and timers of the object run concurrently. The object states are updated by the informer that fills the cache.
//
// # Caveats
//
// Handlers of one object run one after the other, in one goroutine, and hold a worker meanwhile.
//
// # Errors
//
// Faults of the API are returned, for the queue to come back with backoff. Conflicts are none.
package engine
