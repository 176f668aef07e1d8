package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	// Paused is 1 while other operators have precedence, or it is not known whether they have.
	Paused = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "paused",
		Help: "1 while the operator is paused by its peering, 0 while it works.",
	}, []string{"peering", "namespace"})

	// Peers is how many other operators are alive.
	Peers = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "peers",
		Help: "Other operators that are alive, of whatever priority.",
	}, []string{"group", "peering", "namespace"})
)

func init() {
	metrics.Registry.MustRegister(Paused, Peers)
}
