package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const namespace = "kopf"

var (
	// HandlerAttempts counts attempts by handler and outcome.
	HandlerAttempts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "handler_attempts_total",
		Help: "Attempts of handlers by outcome: succeeded, ignored, retried, failed, interrupted, waiting (for sub-handlers).",
	}, []string{"kind", "handler", "outcome"})

	// HandlerDuration is how long attempts take.
	HandlerDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "handler_duration_seconds",
		Help:    "Duration of attempts of handlers.",
		Buckets: []float64{0.001, 0.01, 0.1, 1, 10, 60, 600, 3600},
	}, []string{"kind", "handler"})

	// HandlerPanics counts handlers' recovered panics.
	HandlerPanics = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "handler_panics_total",
		Help: "Panics of handlers that were recovered and handled by their retry policy.",
	}, []string{"kind", "handler"})

	// WriteConflicts counts writes that failed with a conflict.
	WriteConflicts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "write_conflicts_total",
		Help: "Writes that failed with a conflict and were repeated for the present version of the object.",
	}, []string{"kind"})

	// OldestUnhandled is the longest time that an object has been waiting for a worker.
	OldestUnhandled = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "oldest_unhandled_seconds",
		Help: "Longest time that an object has been waiting for a worker.",
	}, []string{"kind"})

	// Objects is the number of objects the process handles.
	Objects = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "objects",
		Help: "Objects of the kind that the process handles; with sharding, only the objects of the shard.",
	}, []string{"kind"})

	// OwnWriteWaits counts the consistency waits.
	OwnWriteWaits = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "own_write_waits_total",
		Help: "Reconciles that were delayed because the cache did not show the last write of the operator yet.",
	}, []string{"kind"})

	// StoredBytes is the total size of an object's annotations after a write.
	StoredBytes = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "stored_bytes",
		Help:    "Size of all annotations of an object after a write of the operator; the API server allows 262144 bytes.",
		Buckets: prometheus.ExponentialBuckets(1024, 4, 5),
	}, []string{"kind"})

	// StaleCacheReads counts the live reads after consistency waits that took too long.
	StaleCacheReads = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "stale_cache_total",
		Help: "Reconciles that read the object from the API server because the cache did not show the last write of the operator in time.",
	}, []string{"kind"})

	// UnpostedEvents counts Events that were dropped because there were too many about the same object.
	UnpostedEvents = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "unposted_events_total",
		Help: "Kubernetes Events that were not posted because there were too many about the same object.",
	}, []string{"kind"})

	// UndecodableObjects is the number of objects that aren't handled because they don't decode into their Go type.
	UndecodableObjects = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "undecodable_objects",
		Help: "Stored objects that the operator does not handle because they do not decode into their Go type.",
	}, []string{"kind"})

	// RejectedProgress counts the progress writes that the API server has rejected.
	RejectedProgress = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "rejected_progress_total",
		Help: "Writes of records and baselines that the API server has rejected; they are kept in memory.",
	}, []string{"kind"})

	// WatchProblems is the number of a kind's watches that deliver no changes, by reason.
	WatchProblems = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "watch_problems",
		Help: "Watches that deliver no changes, by reason: forbidden, not_served (the API server does not serve the kind), rejected (its selectors), undecodable, silent.",
	}, []string{"kind", "reason"})

	// DroppedFields counts the changes of handlers that the API server did not store: fields and nulls it dropped, and removed fields that
	// it set to their defaults.
	DroppedFields = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "dropped_fields_total",
		Help: "Fields that handlers have set and the API server did not store, counted for each write.",
	}, []string{"kind"})

	// UnreadableState counts stored records and baselines that could not be decoded.
	UnreadableState = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "unreadable_state_total",
		Help: "Stored records and baselines that could not be decoded and were treated as absent.",
	}, []string{"kind"})
)

func init() {
	metrics.Registry.MustRegister(
		HandlerAttempts, HandlerDuration, HandlerPanics, WriteConflicts, OldestUnhandled, Objects, OwnWriteWaits, StoredBytes, StaleCacheReads, UnpostedEvents, RejectedProgress, UnreadableState, WatchProblems,
		DroppedFields, UndecodableObjects)
}
