// Package loopguard finds handlers that cause their own calls, and decides how long the next call must wait.
//
// [Recorder] is the client of an attempt of a handler. It records a [Write]: the fields that the handler has written to its own object. [Loops] contains the
// writes of all handlers of an object. [Attribute] compares the changes of the object with them. If handlers have written all changed fields, no other
// client has changed the object, and the handlers have caused the next cycle themselves. [Guard] counts such cycles.
//
// The package logs nothing and posts no Events. The caller passes the time.
package loopguard
