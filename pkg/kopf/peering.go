package kopf

import (
	"fmt"
	"net/http"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/peers"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

// WithPeering coordinates the operator with other operators, in Go or in Python, that use the same peering object (KopfPeering or
// ClusterKopfPeering). The operator with the highest priority is active, and the others are paused. By default, operators with the same
// priority pause each other (see Tie of [peering.Options]). Default: no peering.
//
//	var peers peering.Options
//	peers.BindFlags(flag.CommandLine) // --peering, --priority, --dev, --standalone, --namespace
//	kopf.New(mgr, databases, kopf.WithPeering(peers))
//
// While it is paused, the operator doesn't start handlers, daemons or timers. Running daemons are cancelled with [daemons.ErrPaused];
// running handlers may finish. Event handlers, indexes, admission handlers and probes continue. After the pause, the operator handles what
// has changed in the meantime, but doesn't call resume handlers again.
//
// If the manager's cache is restricted to some namespaces, set the same Namespaces in the options. Two operators of one manager can't use
// the same peering object, because they would pause each other. The LeaderElection field has no effect here, because only the leader writes
// the record anyway.
//
// Equivalent in kopf: settings.peering, --peering, --priority, --dev, --standalone.
func WithPeering(options peering.Options) Option {
	return optionFunc(func(o *Operator) {
		if err := options.Check(); err != nil {
			o.addError(fmt.Errorf("WithPeering: %w", err))
		}
		o.peers = peers.New(options, o.mgr, &o.kinds.Engines)
	})
}

// ServePeering returns an HTTP handler that says in plain text whether the operator is paused, and why. The status is 503 if the peering is
// not ready (see [Operator.Readyz]), otherwise 200. [SetupWithManager] adds the handler to the metrics server under /kopf/peering. To add
// it yourself:
//
//	err := mgr.AddMetricsServerExtraHandler("/kopf/peering", operator.ServePeering())
func (o *Operator) ServePeering() http.Handler { return o.peers }
