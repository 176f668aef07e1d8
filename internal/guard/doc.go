// Package guard calls functions of users, so that a fault in one of them affects nothing else.
//
//	err := guard.Call("KindsFunc", func() error { selected = match(kind); return nil })
//
// A function can fault in two ways: it can panic, and it can call [runtime.Goexit], as FailNow of package testing does. Both become an [Error] with the stack.
// No other package of the library calls recover.
//
// [Catch] recovers a panic in the goroutine of the caller. Nothing can stop runtime.Goexit, so [Call] and [Value] use a goroutine of their own, which costs
// about a microsecond. Package kopf uses them for every function that a user passes to it, except for daemons and timers, which have their own goroutines
// anyway. Packages that are useful without kopf mostly use Catch: if a test calls FailNow in such a function, the test must end.
package guard
