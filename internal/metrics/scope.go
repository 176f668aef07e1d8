package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The states of kinds and namespaces at run time.
const (
	Waiting  = "waiting"  // the API server does not serve the kind
	Starting = "starting" // the caches have not synced
	Failed   = "failed"   // it failed to start, and the operator will retry
	Served   = "served"   // the operator handles the objects
	Leaving  = "leaving"  // the operator is finishing the work it has started
)

var (
	dynamicKinds = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "dynamic_kinds",
		Help: "Kinds of WhenServed and ForKinds by state: waiting, starting, failed, served.",
	}, []string{"state"})

	namespaces = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "namespaces",
		Help: "Namespaces of WithNamespaces and WithNamespaceFunc by state: starting, served, leaving.",
	}, []string{"state"})
)

// A StateCount is one operator's contribution to a gauge that all operators of the process share. It is safe for concurrent use.
type StateCount struct {
	gauge *prometheus.GaugeVec
	mu    sync.Mutex
	last  map[string]int
}

// NewKindCount returns a count of kinds by state.
func NewKindCount() *StateCount { return &StateCount{gauge: dynamicKinds, last: map[string]int{}} }

// NewNamespaceCount returns a count of namespaces by state.
func NewNamespaceCount() *StateCount { return &StateCount{gauge: namespaces, last: map[string]int{}} }

// Set sets the current numbers. A state that is missing counts as 0.
func (c *StateCount) Set(numbers map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for state, n := range c.last {
		c.gauge.WithLabelValues(state).Sub(float64(n))
	}
	for state, n := range numbers {
		c.gauge.WithLabelValues(state).Add(float64(n))
	}
	c.last = numbers
}

func init() { metrics.Registry.MustRegister(dynamicKinds, namespaces) }
