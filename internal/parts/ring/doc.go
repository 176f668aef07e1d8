// Package ring runs an operator as one shard of a ring: it holds the Lease of the shard, and selects the objects of this process.
package ring
