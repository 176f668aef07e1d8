package sharding

import "strings"

// LeaseLabel is the label of a shard's Lease. Its value is the name of the ring.
const LeaseLabel = domain + "controllerring"

const domain = "alpha.sharding.timebertt.dev/"

// ShardLabel returns the key of the label that names an object's shard.
func ShardLabel(ring string) string { return "shard." + domain + ring }

// IsRingLabel reports whether a label is the shard label or the drain label of any ring. These labels aren't part of the essence.
func IsRingLabel(key string) bool {
	return strings.HasPrefix(key, ShardLabel("")) || strings.HasPrefix(key, DrainLabel(""))
}

// DrainLabel returns the key of the label that asks a shard to release an object. The sharder sets it. The label's value has no meaning.
func DrainLabel(ring string) string { return "drain." + domain + ring }
