// Package guard calls users' functions, so that a fault in one of them doesn't affect anything else.
//
//	err := guard.Call("KindsFunc", func() error { selected = match(kind); return nil })
//
// A function can fault in two ways: it can panic, and it can call [runtime.Goexit], as FailNow of package testing does. Both become an
// [Error] with the stack. No other package of the library calls recover.
//
// [Catch] recovers a panic in the caller's goroutine. Since runtime.Goexit can't be stopped, [Call] and [Value] use a separate goroutine,
// which costs about a microsecond. Package kopf uses them for every function that a user passes to it. Daemons and timers are an exception,
// because they have their own goroutines anyway. Packages that are useful without kopf mostly use Catch: if a test calls FailNow in such a
// function, the test should stop.
//
// [ShortenError], [ShortenText] and [ShortenList] limit texts of which users control parts: the API server quotes, for example, a long
// value when it rejects an object, and every attempt logs the text.
package guard
