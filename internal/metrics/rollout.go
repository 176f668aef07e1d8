package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// RolloutObjects is the number of objects in a rollout, by state.
var RolloutObjects = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Namespace: namespace, Name: "rollout_objects",
	Help: "Objects in the rollout of a kind, by state: waiting, running, done, or failed. Failed objects are also done or running.",
}, []string{"kind", "state"})

// RolloutHalted is 1 while the rollout of a kind is halted.
var RolloutHalted = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Namespace: namespace, Name: "rollout_halted",
	Help: "1 while the rollout of a kind is halted, otherwise 0.",
}, []string{"kind"})

func init() { metrics.Registry.MustRegister(RolloutObjects, RolloutHalted) }
