// Package cause works out from an object's state what happened to it.
//
// A [Detector] compares the last-handled configuration with the current essence and returns a [Cause]: the [Reason], both states and the
// difference between them. While a cycle is running, the [Pin] on the object takes the place of the current essence. [Detector.MergeOwn]
// adds changes made by this operator's handlers to an essence, so that they don't count as updates. [DecideFinalizer] decides whether to
// add or remove the finalizer.
//
// Only the state counts, so it doesn't matter if watch events are missed, merged or repeated. All input must come from the same version of
// the object. An update that is reverted before any handler is called goes unnoticed.
package cause
