// Package indexing provides an in-memory index of objects' values by key.
//
// An object has at most one value for each key. An update replaces all of its values. The size of the index doesn't affect the cost of an
// update or a lookup. An [Index] is safe for concurrent use, but only one goroutine at a time may update the values of an object.
package indexing
