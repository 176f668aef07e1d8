package peers

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	peeringv1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
)

// Part runs an operator's peering. With a nil Part, the operator has no peering.
type Part struct {
	options peering.Options
	manager manager.Manager
	engines *operator.Set[*engine.Engine]
	running atomic.Pointer[peering.Peering] // nil before the start, and if the operator is standalone
}

// New returns the part for the peering options.
func New(options peering.Options, mgr manager.Manager, engines *operator.Set[*engine.Engine]) *Part {
	return &Part{options: options, manager: mgr, engines: engines}
}

// HasPeers reports whether the operator has peering and isn't standalone.
func (p *Part) HasPeers() bool { return p != nil && !p.options.Standalone }

// Shares reports whether the operator works beside peers with the same priority.
func (p *Part) Shares() bool { return p.options.Tie == peering.Share }

// Open creates the peering and reserves its peering objects until release is called. The peering is nil if the operator has no peers.
func (p *Part) Open() (peers *peering.Peering, release func(), err error) {
	if !p.HasPeers() {
		return nil, func() {}, nil
	}
	if release, err = p.reserve(); err != nil {
		return nil, nil, err
	}
	if peers, err = peering.New(p.manager, p.options); err != nil {
		release()
		return nil, nil, err
	}
	p.running.Store(peers)
	return peers, release, nil
}

// reserve reserves the peering objects until release is called. It fails if another operator of the manager uses one of them.
func (p *Part) reserve() (release func(), err error) {
	name, namespaces := cmp.Or(p.options.Name, peering.DefaultName), p.options.Namespaces
	kind := peeringv1.GroupVersion.WithKind("KopfPeering")
	if len(namespaces) == 0 {
		kind.Kind, namespaces = "ClusterKopfPeering", []string{""}
	}
	var wanted []operator.Reservation
	for _, namespace := range namespaces {
		wanted = append(wanted, operator.Reservation{Manager: p.manager, Kind: kind, Value: types.NamespacedName{Namespace: namespace, Name: name}})
	}
	release, taken := operator.Reserve(wanted...)
	if len(taken) > 0 {
		return nil, fmt.Errorf("the operator cannot start:\nWithPeering: another operator of this manager has the same %s %q: "+
			"they would pause each other; put the handlers into one operator, or set another Name", kind.Kind, name)
	}
	return release, nil
}

// Forward notifies the engines whenever a pause starts or ends, until stop is called. It notifies them once immediately, because a pause
// may already have started.
func (p *Part) Forward() (stop func()) {
	notify := func(namespace string) {
		for _, e := range p.engines.All() {
			e.PauseChanged(namespace)
		}
	}
	stop = p.running.Load().Subscribe(func(t peering.Transition) { notify(t.Namespace) })
	for _, namespace := range p.Scopes() {
		notify(namespace)
	}
	return stop
}

// Scopes returns the namespaces that can be paused separately. The element "" means all namespaces.
func (p *Part) Scopes() []string {
	if p == nil || len(p.options.Namespaces) == 0 {
		return []string{""}
	}
	return p.options.Namespaces
}

// NotReady returns why the peers aren't known, or why the peering fails.
func (p *Part) NotReady() []error {
	if p == nil || p.running.Load() == nil {
		return nil
	}
	return []error{p.running.Load().Readyz(nil)}
}

// ServeHTTP responds with a text that says whether the operator is paused, and why.
func (p *Part) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p == nil || p.running.Load() == nil {
		_, _ = fmt.Fprintln(w, "the operator does not run in this process, or is standalone") // the client may have closed the connection
		return
	}
	p.running.Load().ServeHTTP(w, r)
}

// groups are the API groups of peering objects. Old Python operators use the second one.
var groups = []string{peeringv1.GroupVersion.Group, "zalando.org"}

// KindOf returns the kind of peering objects that a permission is for, or false for other permissions.
func KindOf(n rbac.Need) (schema.GroupKind, bool) {
	if !slices.Contains(groups, n.Group) {
		return schema.GroupKind{}, false
	}
	if strings.HasPrefix(n.Resource, "cluster") {
		return schema.GroupKind{Group: n.Group, Kind: "ClusterKopfPeering"}, true
	}
	return schema.GroupKind{Group: n.Group, Kind: "KopfPeering"}, true
}

// Rights returns the permissions that the peering needs.
func (p *Part) Rights(string) (needs []rbac.Need) {
	if !p.HasPeers() {
		return nil
	}
	plural, namespaces := "kopfpeerings", p.options.Namespaces
	if len(namespaces) == 0 {
		plural, namespaces = "clusterkopfpeerings", []string{""}
	}
	for i, group := range groups {
		level, reason := rbac.Needed, "peering"
		if i > 0 {
			level, reason = rbac.Optional, "optional: peering with old operators in Python"
		}
		for _, namespace := range namespaces {
			n := rbac.Need{Group: group, Resource: plural, Namespace: namespace, Verbs: []string{"list", "watch", "patch"}, Level: level, Reason: reason}
			status := n
			status.Resource, status.Verbs = plural+"/status", []string{"patch"}
			needs = append(needs, n, status)
		}
	}
	for _, namespace := range namespaces {
		needs = append(needs, rbac.Need{Group: "events.k8s.io", Resource: "events", Namespace: namespace, Verbs: []string{"create", "patch"}, Reason: "Events about pauses"})
	}
	return needs
}
