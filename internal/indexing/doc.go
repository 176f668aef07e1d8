// Package indexing provides an in-memory index of values of objects by key.
//
// An object has at most one value for each key. Each update replaces all values of the object. The cost of an update or a lookup does
// not depend on the size of the index. An [Index] is safe for concurrent use, but only one goroutine at a time may update the values of one
// object.
package indexing
