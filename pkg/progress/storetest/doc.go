// Package storetest tests implementations of [progress.Store] and [progress.Remote]. Call [Store] or [Remote] in a test of your
// implementation.
package storetest
