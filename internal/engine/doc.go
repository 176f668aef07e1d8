// Package engine takes objects through the cycle: from what is seen to what is called and written.
//
// # Flow
//
// Read engine.go: each step of a cycle is a method in a file of its own. The facade describes the
// [Kind] and the [Settings]; the controller calls [Engine.Reconcile] with names.
//
//	load → settle → detect → filter → hold → match → plan → run → level → finish (record, write) → schedule
//
// Before that, those who only watch are shown what was observed (spy.go), and the objects that are gone are
// buried. Indexes are kept on the informer's time, before anybody is woken (index.go).
//
// # Guarantees
//
// No handler that is recorded as done is called again for its cause. No decision is made on an
// object older than our own last write. A cycle is about the state that it has begun with (pin.go): what is
// edited meanwhile is the next one's. Nothing that handlers did is forgotten because a write
// failed, as long as the process lives; if it dies, the last handlers are called again.
//
// # Assumptions
//
// One worker at a time handles a name. The inventory is fed by the informer that fills the cache.
//
// # Caveats
//
// Handlers of one object run one after the other, in one goroutine, and hold a worker meanwhile.
//
// # Errors
//
// Faults of the API are returned, for the queue to come back with backoff. Conflicts are none.
package engine
