// Package background runs daemons and timers, and writes their changes.
//
// Daemons and timers run in goroutines of their own, concurrently with the worker of the object. The [Runner] registers a change of the essence in the
// [State] of the object before it writes the change. The worker therefore does not take the change for an update by another client.
package background
