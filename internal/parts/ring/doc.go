// Package ring runs an operator as one shard of a ring. It holds the shard's Lease and selects the objects of this process.
package ring
