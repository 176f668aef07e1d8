package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// HeldObjects is the number of objects with a hold, by its reason.
var HeldObjects = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Namespace: namespace, Name: "held_objects",
	Help: "Objects whose handlers wait, by the reason, such as annotation or loop.",
}, []string{"kind", "reason"})

func init() { metrics.Registry.MustRegister(HeldObjects) }
