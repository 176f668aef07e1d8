package metrics

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var missingPermissions = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Namespace: namespace, Name: "missing_permissions",
	Help: "Operators of the process that need a permission and do not have it.",
}, []string{"group", "resource", "verb", "namespace"})

var missing struct {
	mu     sync.Mutex
	counts map[string]int // by labels
}

// AddMissingPermission changes the number of operators without a permission. The labels are group, resource, verb and namespace. The time
// series is removed once no operator lacks the permission.
func AddMissingPermission(change int, labels ...string) {
	missing.mu.Lock()
	defer missing.mu.Unlock()
	if missing.counts == nil {
		missing.counts = map[string]int{}
	}
	key := strings.Join(labels, "\n")
	missing.counts[key] += change
	if missing.counts[key] > 0 {
		missingPermissions.WithLabelValues(labels...).Set(float64(missing.counts[key]))
		return
	}
	delete(missing.counts, key)
	missingPermissions.DeleteLabelValues(labels...)
}

func init() { metrics.Registry.MustRegister(missingPermissions) }
