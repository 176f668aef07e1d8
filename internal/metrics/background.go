package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	// Daemons is how many daemons there are: running, or waiting for their next attempt.
	Daemons = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "daemons",
		Help: "Daemons that run or wait for their next attempt.",
	}, []string{"kind", "handler"})

	// Timers is how many timers there are.
	Timers = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "timers",
		Help: "Timers of objects, those included that wait for a change of the object.",
	}, []string{"kind", "handler"})

	// TimersDue is how many timers are due, and wait for others to end.
	TimersDue = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "timers_due",
		Help: "Timers that are due and wait because as many as may run in parallel do.",
	}, []string{"kind", "handler"})

	// TimerDrift is how late timers were invoked.
	TimerDrift = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "timer_drift_seconds",
		Help:    "How long after they were due timers were invoked.",
		Buckets: []float64{0.001, 0.01, 0.1, 0.5, 1, 5, 30, 300},
	}, []string{"kind", "handler"})

	// Unstopped is how many runs were told to stop, did not, and were reported.
	BackgroundUnstopped = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "background_unstopped",
		Help: "Runs of daemons and timers that go on though their contexts have ended long ago.",
	}, []string{"kind", "handler"})

	// Abandoned counts the runs that are not waited for any more.
	BackgroundAbandoned = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "background_abandoned_total",
		Help: "Runs of daemons and timers that did not stop in time and are not waited for any more.",
	}, []string{"kind", "handler"})
)

func init() {
	metrics.Registry.MustRegister(Daemons, Timers, TimersDue, TimerDrift, BackgroundUnstopped, BackgroundAbandoned)
}
