package kopf

import (
	"fmt"
	"net/http"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

// WithPeering lets the operator know of others, in Go or in Python: of those that share a peering object (KopfPeering or
// ClusterKopfPeering), the one with the highest priority works, and the others are paused. Default: it is alone.
//
//	var peers peering.Options
//	peers.BindFlags(flag.CommandLine) // --peering, --priority, --dev, --standalone, --namespace
//	kopf.New(mgr, databases, kopf.WithPeering(peers))
//
// During a pause no handler, daemon or timer is started; running daemons are stopped with [ErrPaused]; what has happened meanwhile is handled
// after it, and nobody resumes once more. OnEvent handlers, indexes, admission and probes go on. A handler that is at work
// when the pause begins comes to its end.
//
// An operator for some namespaces, as its manager's cache is set, has to name them here, too.
//
// kopf: settings.peering, --peering, --priority, --dev, --standalone.
func WithPeering(options peering.Options) Option {
	return optionFunc(func(o *Operator) {
		if err := options.Validate(); err != nil {
			o.mistake(fmt.Errorf("WithPeering: %w", err))
		}
		o.peers = &options
	})
}

// joins makes the operator one of the peers; nil if it is alone.
func (o *Operator) joins() (*peering.Peering, error) {
	if o.peers == nil || o.peers.Standalone {
		return nil, nil
	}
	p, err := peering.New(o.mgr, *o.peers)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.peering = p
	return p, nil
}

// obey has the engines know of all pauses, those that have begun already included.
func obey(p *peering.Peering, namespaces []string, engines []*engine.Engine) (stop func()) {
	tell := func(namespace string) {
		for _, e := range engines {
			e.PauseChanged(namespace)
			if namespace != "" && e.OfCluster {
				e.PauseChanged("")
			}
		}
	}
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	stop = p.Subscribe(func(t peering.Transition) { tell(t.Namespace) })
	for _, namespace := range namespaces {
		tell(namespace)
	}
	return stop
}

// servePeering answers with what the peering says.
func (o *Operator) servePeering() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		p := o.peering
		o.mu.Unlock()
		if p == nil {
			_, _ = fmt.Fprintln(w, "the operator does not run here, or is standalone") // nobody is left to be told of an error
			return
		}
		p.ServeHTTP(w, r)
	})
}
