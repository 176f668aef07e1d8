package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	// Paused is 1 while another operator has a higher priority, or while the operator cannot read its peering object.
	Paused = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "paused",
		Help: "1 while peering pauses the operator, 0 otherwise.",
	}, []string{"peering", "namespace"})

	// Peers is the number of live peers, which are other operators that keep renewing their records.
	Peers = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "peers",
		Help: "Other operators that are alive, of any priority.",
	}, []string{"group", "peering", "namespace"})
)

func init() {
	metrics.Registry.MustRegister(Paused, Peers)
}
