// Package cause computes from the state of an object what has happened to it.
//
// The engine collects [Facts] about the object. [Detect] returns the [Reason], and [DecideFinalizer] decides whether to add or to remove the
// finalizer. Both are pure functions of the state: missed, merged and repeated watch events do not change the result. All facts must belong
// to the same version of the object.
//
// An update that is reverted before it is handled is not detected.
package cause
