package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const namespace = "kopf"

var (
	// Handlers counts the attempts of handlers, by how they ended.
	Handlers = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "handler_attempts_total",
		Help: "Attempts of handlers by outcome: succeeded, ignored, retried, failed, interrupted.",
	}, []string{"kind", "handler", "outcome"})

	// Panics counts the panics of handlers that were caught.
	Panics = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "handler_panics_total",
		Help: "Panics of handlers, caught and handled by their retry policy.",
	}, []string{"kind", "handler"})

	// Conflicts counts writes that were refused because somebody else has written meanwhile.
	Conflicts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "write_conflicts_total",
		Help: "Writes refused with a conflict and made again on the fresh object.",
	}, []string{"kind"})

	// StaleCaches counts how often the cache did not show our own write in time.
	StaleCaches = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "stale_cache_total",
		Help: "Passes that read the object from the API server, because the cache did not show our last write in time.",
	}, []string{"kind"})

	// Unreadable counts stored state that could not be read and was taken as absent.
	Unreadable = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "unreadable_state_total",
		Help: "Stored records and baselines that could not be read and were taken as absent.",
	}, []string{"kind"})
)

func init() {
	metrics.Registry.MustRegister(Handlers, Panics, Conflicts, StaleCaches, Unreadable)
}
