// Package shards selects the objects that one of several processes handles, and follows the objects that this process releases.
package shards
