package peering

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// Options say which peers there are to be, and what this operator is among them. The zero value is an operator of
// the whole cluster, of priority 0, that looks at the object "default" if there is one.
type Options struct {
	// Name of the peering object: operators know of each other that use the same one. Default: "default".
	//
	// kopf: settings.peering.name, --peering.
	Name string
	// Namespaces that the operator serves: it has a KopfPeering in each, and where peers have precedence, only that
	// namespace is paused. None: it serves the cluster, and has a ClusterKopfPeering.
	//
	// kopf: --namespace, settings.peering.clusterwide, settings.peering.namespaced.
	Namespaces []string
	// Priority among the peers: the highest one works, the others pause. Default: 0.
	//
	// kopf: settings.peering.priority, --priority; --dev is [DevPriority].
	Priority int
	// Lifetime is after how long without a sign of life the others take this operator for dead, in whole seconds. A
	// sign of life is given 5 to 10 seconds earlier. Default: 60 seconds.
	//
	// kopf: settings.peering.lifetime.
	Lifetime time.Duration
	// Mandatory pauses the operator until the peering object is there. Default: without the object, it works alone.
	//
	// kopf: settings.peering.mandatory; implied by --peering.
	Mandatory bool
	// Standalone ignores all peers and is unknown to them; the other options do not matter then.
	//
	// kopf: settings.peering.standalone, --standalone.
	Standalone bool
	// Identity of the operator. It is unique among all that run at a time: operators of one identity do not see each
	// other. Default: $POD_ID if that is set, otherwise user@host/time/random.
	//
	// kopf: identity=.
	Identity string
	// Stealth leaves the signs of life out of the log, where they have verbosity 1.
	//
	// kopf: settings.peering.stealth.
	Stealth bool
	// Tie is what equal priorities mean. Default: [PauseAll].
	Tie Tie
	// LeaderElection says whether peering is for the leader only. Default: true, so that replicas that stand by are
	// no peers. It is for reconcilers behind a [Gate]; an operator of package kopf goes by its manager and ignores it.
	LeaderElection *bool
}

// The defaults of [Options], and the priority of a developer.
const (
	DefaultName     = "default"
	DefaultLifetime = 60 * time.Second
	// DevPriority is what --dev sets: higher than what runs in clusters.
	DevPriority = 666
)

// Validate tells all mistakes, joined: what is wrong, and what to do.
func (o Options) Validate() error {
	var problems []error
	mistakef := func(format string, args ...any) { problems = append(problems, fmt.Errorf("peering: "+format, args...)) }
	if o.Name != "" {
		if err := validation.Subdomain(o.Name); err != nil {
			mistakef("Name %q cannot be the name of an object: %w", o.Name, err)
		}
	}
	for i, namespace := range o.Namespaces {
		if namespace == "" {
			mistakef("Namespaces has an empty name: name the namespaces, or leave all out to serve the cluster")
			continue
		}
		if err := validation.DNSLabel(namespace); err != nil {
			mistakef("Namespaces has %q, which cannot be a namespace: %w", namespace, err)
		}
		if slices.Contains(o.Namespaces[:i], namespace) {
			mistakef("Namespaces has %q twice: leave one out", namespace)
		}
	}
	switch {
	case o.Lifetime < 0:
		mistakef("Lifetime is negative (%s): use one of at least a second, or leave it out for %s", o.Lifetime, DefaultLifetime)
	case validation.Duration(o.Lifetime) != nil:
		mistakef("Lifetime is %w", validation.Duration(o.Lifetime))
	case o.Lifetime%time.Second != 0:
		mistakef("Lifetime is %s: use whole seconds, records have no others", o.Lifetime)
	}
	if o.Tie < PauseAll || o.Tie > Elect {
		mistakef("Tie (%d) is no rule: use PauseAll or Elect", o.Tie)
	}
	return errors.Join(problems...)
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.Lifetime == 0 {
		o.Lifetime = DefaultLifetime
	}
	o.Namespaces = slices.Clone(o.Namespaces)
	return o
}

// places are the namespaces with a peering object; the cluster is "".
func (o Options) places() []string {
	if len(o.Namespaces) == 0 {
		return []string{""}
	}
	return o.Namespaces
}
