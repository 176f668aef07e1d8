package sharding

import "strings"

// LeaseLabel is the label of the Lease of a shard. Its value is the name of the ring.
const LeaseLabel = domain + "controllerring"

const domain = "alpha.sharding.timebertt.dev/"

// ShardLabel returns the key of the label that contains the name of the shard of an object.
func ShardLabel(ring string) string { return "shard." + domain + ring }

// IsRingLabel reports whether a label is the shard label or the drain label of any ring. The essence does not contain these labels.
func IsRingLabel(key string) bool {
	return strings.HasPrefix(key, ShardLabel("")) || strings.HasPrefix(key, DrainLabel(""))
}

// DrainLabel returns the key of the label with which the sharder asks the shard to release an object. The value of the label has no meaning.
func DrainLabel(ring string) string { return "drain." + domain + ring }
