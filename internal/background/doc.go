// Package background runs daemons and timers, and writes their changes.
//
// Daemons and timers run in goroutines of their own, concurrently with the worker of the object. A change of the essence by a daemon or a timer is registered
// in the [State] of the object before it is written, so that the worker does not take it for an update.
package background
