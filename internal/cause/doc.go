// Package cause computes from the state of an object what has happened to it.
//
// A [Detector] compares the last-handled configuration of an object with its present essence and returns a [Cause]: the [Reason], the two
// states, and their difference. While a cycle is running, the [Pin] on the object replaces the present essence. [Detector.MergeOwn] adds changes by
// handlers of this operator to an essence, so that these changes do not count as updates. [DecideFinalizer] decides whether to add or to remove the finalizer.
//
// All of this is computed from values: missed, merged and repeated watch events do not change the result. The input must belong to one version of
// the object. An update that is reverted before a handler is called is not detected.
package cause
