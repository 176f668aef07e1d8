// Package shards selects the objects of one of several processes, and follows the objects that this process releases.
package shards
