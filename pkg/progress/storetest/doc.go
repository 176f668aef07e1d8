// Package storetest checks implementations of [progress.Store] and [progress.Remote]. Call its functions from a test of the implementation.
package storetest
