package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// LoopingObjects is the number of objects whose handlers cause their own calls.
var LoopingObjects = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Namespace: namespace, Name: "looping_objects",
	Help: "Objects whose handlers cause their own calls again and again; these calls are delayed.",
}, []string{"kind"})

func init() { metrics.Registry.MustRegister(LoopingObjects) }
