// Package cause concludes from the state of an object what has happened to it: when is it an update?
//
// # Flow
//
// The engine gathers [Facts]; [Detect] names the [Reason]; [Holding] decides about the finalizer.
//
// # Guarantees
//
// Calculations only. The same facts give the same answer, however often an object is seen and
// whichever events were missed, merged or repeated.
//
// # Assumptions
//
// The facts are of one moment: the engine never mixes an old object with a newer one.
//
// # Caveats
//
// An update that is reverted before it was handled never happened.
//
// # Errors
//
// None.
package cause
