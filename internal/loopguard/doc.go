// Package loopguard finds handlers that cause their own calls, and decides how long the next call must wait.
//
// [Attribute] compares the changes of an object with the fields that handlers have written before. If handlers have written all changed fields, no
// other client has changed the object, and the handlers have caused the next cycle themselves. [Guard] counts such cycles.
//
// The package only calculates. The caller passes the time.
package loopguard
