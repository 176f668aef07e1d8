package kopf

import (
	"cmp"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	peeringv1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
)

// WithPeering coordinates the operator with other operators, in Go or in Python, that use the same peering object (KopfPeering or
// ClusterKopfPeering). The operator with the highest priority is active, and the others are paused. By default, operators with the same priority
// pause each other (see Tie of [peering.Options]). Default: no peering.
//
//	var peers peering.Options
//	peers.BindFlags(flag.CommandLine) // --peering, --priority, --dev, --standalone, --namespace
//	kopf.New(mgr, databases, kopf.WithPeering(peers))
//
// During a pause, the operator does not start handlers, daemons or timers. It cancels running daemons with [daemons.ErrPaused], and lets
// running handlers finish. Event handlers, indexes, admission handlers and probes continue. After the pause, the operator handles the changes
// made during the pause. It does not call resume handlers again.
//
// If the cache of the manager is restricted to some namespaces, set the same Namespaces in the options. Two operators of one manager cannot
// use the same peering object, because they would pause each other. The field LeaderElection has no effect, because only the leader writes
// the record.
//
// Equivalent in kopf: settings.peering, --peering, --priority, --dev, --standalone.
func WithPeering(options peering.Options) Option {
	return optionFunc(func(o *Operator) {
		if err := options.Check(); err != nil {
			o.addError(fmt.Errorf("WithPeering: %w", err))
		}
		o.peers = &options
	})
}

// startPeering creates the peering of the operator and reserves its peering objects until release is called. The peering is nil without WithPeering, and
// if the operator is standalone.
func (o *Operator) startPeering() (p *peering.Peering, release func(), err error) {
	if o.peers == nil || o.peers.Standalone {
		return nil, func() {}, nil
	}
	if release, err = o.reservePeering(); err != nil {
		return nil, nil, err
	}
	if p, err = peering.New(o.mgr, *o.peers); err != nil {
		release()
		return nil, nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.peering = p
	return p, release, nil
}

// reservePeering reserves the peering objects for the operator until release is called. It returns an error if another operator of the manager
// uses one of them, because the two operators would pause each other.
func (o *Operator) reservePeering() (release func(), err error) {
	name, namespaces := cmp.Or(o.peers.Name, peering.DefaultName), o.peers.Namespaces
	kind := peeringv1.GroupVersion.WithKind("KopfPeering")
	if len(namespaces) == 0 {
		kind.Kind, namespaces = "ClusterKopfPeering", []string{""}
	}
	var reserved []reservation
	release = func() {
		for _, r := range reserved {
			reservations.Delete(r)
		}
	}
	for _, namespace := range namespaces {
		r := reservation{o.mgr, kind, types.NamespacedName{Namespace: namespace, Name: name}}
		if _, taken := reservations.LoadOrStore(r, true); taken {
			release()
			return nil, fmt.Errorf("the operator cannot start:\nWithPeering: another operator of this manager has the same %s %q: "+
				"they would pause each other; put the handlers into one operator, or set another Name", kind.Kind, name)
		}
		reserved = append(reserved, r)
	}
	return release, nil
}

// forwardPauses notifies the engines of each start and end of a pause. It also notifies them immediately, because a pause may already have
// started.
func (o *Operator) forwardPauses(p *peering.Peering) (stop func()) {
	notify := func(namespace string) {
		for _, e := range o.runningEngines() {
			e.PauseChanged(namespace)
		}
	}
	stop = p.Subscribe(func(t peering.Transition) { notify(t.Namespace) })
	for _, namespace := range o.pausedScopes() {
		notify(namespace)
	}
	return stop
}

// pausedScopes returns the namespaces that can be paused separately. The element "" means all namespaces.
func (o *Operator) pausedScopes() []string {
	if o.peers == nil || len(o.peers.Namespaces) == 0 {
		return []string{""}
	}
	return o.peers.Namespaces
}

// ServePeering returns an HTTP handler that responds with a text about whether and why the operator is paused. The status is 503 if the peering is
// not ready (see [Operator.Readyz]), and otherwise 200. [SetupWithManager] adds the handler to the metrics server under /kopf/peering. To add it
// yourself:
//
//	err := mgr.AddMetricsServerExtraHandler("/kopf/peering", operator.ServePeering())
func (o *Operator) ServePeering() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		p := o.peering
		o.mu.Unlock()
		if p == nil {
			_, _ = fmt.Fprintln(w, "the operator does not run in this process, or is standalone") // the client may have closed the connection
			return
		}
		p.ServeHTTP(w, r)
	})
}
