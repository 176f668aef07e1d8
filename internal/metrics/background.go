package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	// Daemons is the number of daemons that run or wait for their next attempt.
	Daemons = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "daemons",
		Help: "Daemons that run or wait for their next attempt.",
	}, []string{"kind", "handler"})

	// Timers is the number of timers, summed over all objects.
	Timers = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "timers",
		Help: "Timers of objects, including those that wait for a change of the object.",
	}, []string{"kind", "handler"})

	// TimersDue is the number of due timers that wait for a free worker.
	TimersDue = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "timers_due",
		Help: "Timers that are due and wait because the maximum number of timers is running.",
	}, []string{"kind", "handler"})

	// TimerDrift is how long after their due time timers are called.
	TimerDrift = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "timer_drift_seconds",
		Help:    "Delay between the due time and the invocation of timers.",
		Buckets: []float64{0.001, 0.01, 0.1, 0.5, 1, 5, 30, 300},
	}, []string{"kind", "handler"})

	// BackgroundUnstopped is the number of daemons and timers that still run long after their contexts were cancelled.
	BackgroundUnstopped = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "background_unstopped",
		Help: "Runs of daemons and timers that still run long after their contexts have ended.",
	}, []string{"kind", "handler"})

	// BackgroundAbandoned counts the daemons and timers that did not stop in time.
	BackgroundAbandoned = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "background_abandoned_total",
		Help: "Runs of daemons and timers that did not stop in time; the engine no longer waits for them.",
	}, []string{"kind", "handler"})
)

func init() {
	metrics.Registry.MustRegister(Daemons, Timers, TimersDue, TimerDrift, BackgroundUnstopped, BackgroundAbandoned)
}
