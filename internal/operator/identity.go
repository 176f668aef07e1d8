package operator

import (
	"os"

	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

// Identity returns the operator's name for log lines: its peering identity if it has one, otherwise the host name, which in a pod is the
// pod's name by default.
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
