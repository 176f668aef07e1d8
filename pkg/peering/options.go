package peering

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// Options configures a [Peering]. With the zero value, the operator serves the whole cluster with priority 0, and uses the
// ClusterKopfPeering "default" if it exists.
type Options struct {
	// Name is the name of the peering object. Operators with the same peering object are peers. Default: "default".
	//
	// Equivalent in kopf: settings.peering.name, --peering.
	Name string
	// Namespaces are the served namespaces. The operator uses a KopfPeering in each of them, and pauses in each independently. If empty, it
	// serves the cluster and uses a ClusterKopfPeering.
	//
	// Equivalent in kopf: --namespace, settings.peering.clusterwide, settings.peering.namespaced.
	Namespaces []string
	// Priority is compared with the peers' priorities. The operator with the highest priority works, and the others pause. Default: 0.
	//
	// Equivalent in kopf: settings.peering.priority, --priority; --dev is [DevPriority].
	Priority int
	// Lifetime is how long peers consider the operator alive after it has written its record, in whole seconds, at most [MaxLifetime]. The
	// operator renews the record 5 to 10 seconds earlier, but not within one second after a write. Default: 60 seconds.
	//
	// Equivalent in kopf: settings.peering.lifetime.
	Lifetime time.Duration
	// Mandatory pauses the operator until the peering object exists. By default, it works without one as if it had no peers.
	//
	// Equivalent in kopf: settings.peering.mandatory; implied by --peering.
	Mandatory bool
	// Standalone disables peering: the operator ignores all peers, writes no record, and ignores the other options.
	//
	// Equivalent in kopf: settings.peering.standalone, --standalone.
	Standalone bool
	// Identity is the key of the operator's record. It must be unique among running operators, because those with the same identity ignore
	// each other. Default: the environment variable POD_ID if set, otherwise user@host/time/random.
	//
	// Equivalent in kopf: identity=.
	Identity string
	// Stealth disables logging of keep-alive writes, which are otherwise logged at verbosity 1.
	//
	// Equivalent in kopf: settings.peering.stealth.
	Stealth bool
	// Tie says what happens if peers have the same priority. Default: [PauseAll].
	Tie Tie
	// LeaderElection sets whether only the leader takes part in peering. Default: true, so that standby replicas don't write records. Set
	// it to false for reconcilers behind a [Gate] that run without leader election. Package kopf ignores this field, because there only the
	// leader takes part.
	LeaderElection *bool
}

// Defaults of [Options].
const (
	DefaultName     = "default"
	DefaultLifetime = 60 * time.Second
	// DevPriority is the priority that the flag --dev sets. It is higher than the usual priorities of operators in clusters.
	DevPriority = 666
)

// Check returns all errors in the options, joined. Each says how to fix it.
func (o Options) Check() error {
	var problems []error
	addErrorf := func(format string, args ...any) { problems = append(problems, fmt.Errorf("peering: "+format, args...)) }
	if o.Name != "" {
		if err := validation.Subdomain(o.Name); err != nil {
			addErrorf("Name %q is invalid: %w", o.Name, err)
		}
	}
	for i, namespace := range o.Namespaces {
		if namespace == "" {
			addErrorf("Namespaces contains an empty name: remove it, or leave Namespaces empty to serve the cluster")
			continue
		}
		if err := validation.DNSLabel(namespace); err != nil {
			addErrorf("Namespaces contains %q, which is invalid: %w", namespace, err)
		}
		if slices.Contains(o.Namespaces[:i], namespace) {
			addErrorf("Namespaces contains %q twice: remove one", namespace)
		}
	}
	switch {
	case o.Lifetime < 0:
		addErrorf("Lifetime must be at least one second, got %s", o.Lifetime)
	case validation.DurationUnit(o.Lifetime) != nil:
		addErrorf("Lifetime is %w", validation.DurationUnit(o.Lifetime))
	case o.Lifetime%time.Second != 0:
		addErrorf("Lifetime must be in whole seconds, got %s", o.Lifetime)
	case o.Lifetime > MaxLifetime:
		addErrorf("Lifetime must be at most %s, got %s", MaxLifetime, o.Lifetime)
	}
	if o.Tie < PauseAll || o.Tie > Share {
		addErrorf("Tie must be PauseAll, Elect or Share, got %d", o.Tie)
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

// namespaces returns the served namespaces, or "" for the cluster.
func (o Options) namespaces() []string {
	if len(o.Namespaces) == 0 {
		return []string{""}
	}
	return o.Namespaces
}
