// Package background runs daemons and timers, and writes their changes.
//
// Daemons and timers run in their own goroutines, concurrently with the object's worker. Before the [Runner] writes a change of the
// essence, it registers the change in the object's [State], so that the worker doesn't take it for an update by another client.
package background
