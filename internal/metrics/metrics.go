package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const namespace = "kopf"

var (
	// Handlers counts the attempts of handlers, by how they ended.
	HandlerAttempts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "handler_attempts_total",
		Help: "Attempts of handlers by outcome: succeeded, ignored, retried, failed, interrupted, waiting (for sub-handlers).",
	}, []string{"kind", "handler", "outcome"})

	// Durations are how long the attempts took.
	HandlerDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "handler_duration_seconds",
		Help:    "How long attempts of handlers took.",
		Buckets: []float64{0.001, 0.01, 0.1, 1, 10, 60, 600, 3600},
	}, []string{"kind", "handler"})

	// Panics counts the panics of handlers that were caught.
	HandlerPanics = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "handler_panics_total",
		Help: "Panics of handlers, caught and handled by their retry policy.",
	}, []string{"kind", "handler"})

	// Conflicts counts writes that were refused because somebody else has written meanwhile.
	WriteConflicts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "write_conflicts_total",
		Help: "Writes refused with a conflict and made again on the fresh object.",
	}, []string{"kind"})

	// Oldest is for how long the first of the waiting objects has waited.
	OldestUnhandled = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "oldest_unhandled_seconds",
		Help: "For how long the first of the objects that wait for a worker has waited.",
	}, []string{"kind"})

	// OwnWriteWaits counts how often an object had to wait for the cache to show our own write.
	OwnWriteWaits = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "own_write_waits_total",
		Help: "Passes put off because the cache did not show our last write yet.",
	}, []string{"kind"})

	// StoredBytes is how much of an object's annotations are progress and baseline.
	StoredBytes = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "stored_bytes",
		Help:    "Size of all annotations of an object after a write of ours; the limit is 262144.",
		Buckets: prometheus.ExponentialBuckets(1024, 4, 5),
	}, []string{"kind"})

	// StaleCaches counts how often the cache did not show our own write in time.
	StaleCacheReads = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "stale_cache_total",
		Help: "Passes that read the object from the API server, because the cache did not show our last write in time.",
	}, []string{"kind"})

	// UnpostedEvents counts Events that were not posted as there were too many about their objects.
	UnpostedEvents = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "unposted_events_total",
		Help: "Kubernetes Events that were not posted, as there were too many about their objects.",
	}, []string{"kind"})

	// RejectedProgress counts writes of progress that the API server has rejected.
	RejectedProgress = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "rejected_progress_total",
		Help: "Writes of records and baselines that the API server has rejected; they are kept in memory.",
	}, []string{"kind"})

	// WatchProblems is how many watches of a kind deliver no changes, by reason.
	WatchProblems = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "watch_problems",
		Help: "Watches that deliver no changes, by reason: forbidden, not_served (the API server does not serve the kind), silent.",
	}, []string{"kind", "reason"})

	// DroppedFields counts the fields of handlers that the API server did not store.
	DroppedFields = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "dropped_fields_total",
		Help: "Fields that handlers have set and the API server did not store, counted with each write.",
	}, []string{"kind"})

	// Unreadable counts stored state that could not be read and was taken as absent.
	UnreadableState = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "unreadable_state_total",
		Help: "Stored records and baselines that could not be read and were taken as absent.",
	}, []string{"kind"})
)

func init() {
	metrics.Registry.MustRegister(
		HandlerAttempts, HandlerDuration, HandlerPanics, WriteConflicts, OldestUnhandled, OwnWriteWaits, StoredBytes, StaleCacheReads, UnpostedEvents, RejectedProgress, UnreadableState, WatchProblems,
		DroppedFields)
}
