package kopf

import (
	"cmp"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	peeringv1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
)

// WithPeering lets the operator know of others, in Go or in Python: of those that share a peering object (KopfPeering or
// ClusterKopfPeering), the one with the highest priority works, and the others are paused. Default: it is alone.
//
//	var peers peering.Options
//	peers.BindFlags(flag.CommandLine) // --peering, --priority, --dev, --standalone, --namespace
//	kopf.New(mgr, databases, kopf.WithPeering(peers))
//
// During a pause no handler, daemon or timer is started; running daemons are stopped with [daemons.ErrPaused]; what has happened meanwhile is handled
// after it, and nobody resumes once more. OnEvent handlers, indexes, admission and probes go on. A handler that is at work
// when the pause begins comes to its end.
//
// An operator for some namespaces, as its manager's cache is set, has to name them here, too. Two operators of one manager cannot share a
// peering object: they would pause for each other. The option LeaderElection means nothing here: it is the operator's leader that has the
// record.
//
// kopf: settings.peering, --peering, --priority, --dev, --standalone.
func WithPeering(options peering.Options) Option {
	return optionFunc(func(o *Operator) {
		if err := options.Check(); err != nil {
			o.addError(fmt.Errorf("WithPeering: %w", err))
		}
		o.peers = &options
	})
}

// joins makes the operator one of the peers, until it leaves; nil if it is alone.
func (o *Operator) startPeering() (p *peering.Peering, leave func(), err error) {
	if o.peers == nil || o.peers.Standalone {
		return nil, func() {}, nil
	}
	if leave, err = o.reservePeering(); err != nil {
		return nil, nil, err
	}
	if p, err = peering.New(o.mgr, *o.peers); err != nil {
		leave()
		return nil, nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.peering = p
	return p, leave, nil
}

// meet reserves the peering objects for the operator: another one of the same manager would be its peer, and both would pause.
func (o *Operator) reservePeering() (leave func(), err error) {
	name, namespaces := cmp.Or(o.peers.Name, peering.DefaultName), o.peers.Namespaces
	kind := peeringv1.GroupVersion.WithKind("KopfPeering")
	if len(namespaces) == 0 {
		kind.Kind, namespaces = "ClusterKopfPeering", []string{""}
	}
	var mine []reservation
	leave = func() {
		for _, c := range mine {
			reservations.Delete(c)
		}
	}
	for _, namespace := range namespaces {
		c := reservation{o.mgr, kind, types.NamespacedName{Namespace: namespace, Name: name}}
		if _, taken := reservations.LoadOrStore(c, true); taken {
			leave()
			return nil, fmt.Errorf("the operator cannot start:\nWithPeering: another operator of this manager has the same %s %q: "+
				"they would be peers, and pause for each other; put the handlers into one operator, or give one of them another Name", kind.Kind, name)
		}
		mine = append(mine, c)
	}
	return leave, nil
}

// obey has the engines know of all pauses, those that have begun already included.
func forwardPauses(p *peering.Peering, namespaces []string, engines []*engine.Engine) (stop func()) {
	tell := func(namespace string) {
		for _, e := range engines {
			e.PauseChanged(namespace)
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

// ServePeering answers with whether the operator is paused, and why; with status 503 if it is not ready because of that (see
// [Operator.Readyz]). [SetupWithManager] puts it on the manager's metrics server, under /kopf/peering; for an operator that is added
// otherwise: mgr.AddMetricsServerExtraHandler("/kopf/peering", operator.ServePeering()).
func (o *Operator) ServePeering() http.Handler {
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
