package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	// DrainingObjects is the number of objects that the sharder is draining and the shard has not released yet.
	DrainingObjects = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "draining_objects",
		Help: "Objects that must move to another shard and wait until the handlers, daemons and timers of this shard have ended.",
	}, []string{"kind"})

	// DrainDuration is the time between an object's drain label and its release.
	DrainDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "drain_duration_seconds",
		Help:    "Time from the drain label until the shard has released the object for another shard.",
		Buckets: []float64{0.01, 0.1, 1, 10, 60, 600, 3600},
	}, []string{"kind"})

	// ShardLeaseRenewed is when the shard's Lease was last renewed.
	ShardLeaseRenewed = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "shard_lease_renewed_timestamp_seconds",
		Help: "Unix time of the last renewal of the Lease of the shard; 0 if the process does not hold the Lease.",
	}, []string{"ring"})
)

func init() { metrics.Registry.MustRegister(DrainingObjects, DrainDuration, ShardLeaseRenewed) }
