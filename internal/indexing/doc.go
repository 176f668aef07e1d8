// Package indexing keeps values of objects by keys, in the process.
//
// # Flow
//
// The informer of a kind shows each state of each object to an [Index], before anybody is woken for it, and
// tells which objects are gone. Users look up keys.
//
// # Guarantees
//
// An object has at most one value for each key. Its values are those of its last indexed state; they go with
// it. Looking up and updating cost as much as there are values or keys of the object, not as the index is large.
// Lookups may come from any goroutine.
//
// # Assumptions
//
// One goroutine at a time shows states of one object, in their order.
//
// # Caveats
//
// Everything is in memory, and built anew when the process starts.
//
// # Errors
//
// Functions that fail are the caller's concern: see [Index.Set] and [Index.Remove].
package indexing
