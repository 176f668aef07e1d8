// Package loopguard detects handlers that trigger themselves, and decides how long their next call must wait.
//
// [Recorder] is the client that a handler gets for one attempt. It records in a [Write] which fields the handler has changed in its own
// object. [Loops] keeps the writes of all handlers of an object, and [Attribute] compares the object's changes with them. If handlers wrote
// all changed fields, no other client has changed the object, so the handlers have caused the next cycle themselves. [Guard] counts such
// cycles.
//
// The package neither logs nor posts Events, and the caller passes the time.
package loopguard
