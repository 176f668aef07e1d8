package operator

import (
	"os"

	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

// Identity returns the name of the operator for log lines. With peering, this is the identity as a peer, and otherwise the host name. In a
// pod, the host name is the name of the pod by default.
func Identity(peers *peering.Peering) string {
	if peers != nil {
		return peers.Identity()
	}
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}
