package validation

import (
	"os"
	"strings"
)

const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// PodNamespace returns the namespace of the process's pod, from the environment variable POD_NAMESPACE or the service account. It returns an
// error outside of a cluster.
func PodNamespace() (string, error) {
	if namespace := os.Getenv("POD_NAMESPACE"); namespace != "" {
		return namespace, nil
	}
	text, err := os.ReadFile(namespaceFile)
	return strings.TrimSpace(string(text)), err
}
