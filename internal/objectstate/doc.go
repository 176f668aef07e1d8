// Package objectstate remembers, in the process, which objects there are and what was done to them.
//
// # Flow
//
// [Inventory.EventHandler] is fed by the informer: it notes objects and deletions, and queues names.
// The worker that takes a name recalls the [Memory] of the object, and exhumes those that were deleted.
//
// # Guarantees
//
// Memories are bound to uids. A deletion is noticed however it comes: by an event, by a tombstone
// after a lost watch, or by another uid under the same name.
//
// # Assumptions
//
// One worker at a time handles a name, as controller-runtime's queue promises.
//
// # Caveats
//
// A memory is a few dozen bytes for every object of the kind. It points to the newest state of the
// object, which is the cache's own. Only while a write of ours is ahead of the cache, or has failed and is to be made again, does it
// hold copies. An [Overlay] holds the object for which it was made.
//
// # Errors
//
// None.
package objectstate
