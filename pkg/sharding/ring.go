package sharding

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	kopfvalidation "github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// A Ring makes this process a member of a ring. Create it with [ControllerRing] or [ServerSide].
type Ring struct {
	name, shard, namespace string
	index, total           int // of ServerSide
	errs                   []error
}

// An Option configures a [Ring].
type Option func(*Ring)

// ControllerRing returns a [Ring] for the ControllerRing object with this name. Pass it to kopf.WithSharding. [Ring.Check] reports invalid
// arguments.
func ControllerRing(name string, options ...Option) Ring {
	r := Ring{name: name}
	r.configure("ControllerRing", options)
	return r
}

// configure checks the name and applies the options.
func (r *Ring) configure(constructor string, options []Option) {
	if errs := validation.IsDNS1123Label(r.name); len(errs) > 0 {
		r.errs = append(r.errs, fmt.Errorf("%s(%q): the name is not valid: %s", constructor, r.name, strings.Join(errs, "; ")))
	}
	for _, option := range options {
		if option == nil {
			r.errs = append(r.errs, fmt.Errorf("%s(%q): an option is nil: remove it", constructor, r.name))
			continue
		}
		option(r)
	}
}

// ShardName sets the name of the shard, which is also the name of its Lease. It must be unique among the running processes of the ring, and
// have at most 63 characters. It is only for a [ControllerRing]. Default: the environment variable POD_NAME, or else the host name.
func ShardName(name string) Option {
	return func(r *Ring) {
		if r.shard = name; name == "" {
			r.errs = append(r.errs, errors.New("ShardName is empty: pass a name that no other process of the ring has, or remove the option"))
		}
	}
}

// LeaseNamespace sets the namespace of the Lease. Default: the environment variable POD_NAMESPACE, or else the namespace of the pod's
// service account.
func LeaseNamespace(namespace string) Option {
	return func(r *Ring) {
		if r.namespace = namespace; namespace == "" {
			r.errs = append(r.errs, errors.New("LeaseNamespace is empty: pass the namespace of the operator, or remove the option"))
		}
	}
}

// Name returns the name of the ring.
func (r Ring) Name() string { return r.name }

// Check returns all errors in the arguments and options of the ring, joined.
func (r Ring) Check() error {
	if r.name == "" && len(r.errs) == 0 {
		return errors.New("the ring has no name: create it with ControllerRing or ServerSide")
	}
	return errors.Join(r.errs...)
}

// Shard returns the name of the shard. It returns an error if the name is unknown or invalid.
func (r Ring) Shard() (string, error) {
	if r.total > 0 {
		return fmt.Sprintf("%s-%d", r.name, r.index), nil
	}
	name, source := r.shard, "ShardName"
	if name == "" {
		name, source = os.Getenv("POD_NAME"), "the environment variable POD_NAME"
	}
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("the shard has no name: set the environment variable POD_NAME from metadata.name, or use sharding.ShardName: %w", err)
		}
		name, source = host, "the host name"
	}
	if errs := append(validation.IsDNS1123Subdomain(name), validation.IsValidLabelValue(name)...); len(errs) > 0 {
		return "", fmt.Errorf("%s %q is not a valid shard name: %s; use sharding.ShardName", source, name, strings.Join(errs, "; "))
	}
	return name, nil
}

// ExplicitNamespace returns the namespace from [LeaseNamespace], or "" without this option.
func (r Ring) ExplicitNamespace() string { return r.namespace }

// Namespace returns the namespace of the Lease. It returns an error if the namespace is unknown or invalid.
func (r Ring) Namespace() (string, error) {
	namespace := r.namespace
	if namespace == "" {
		var err error
		if namespace, err = kopfvalidation.PodNamespace(); err != nil {
			return "", fmt.Errorf("the namespace of the shard's Lease is not known outside of a cluster: use sharding.LeaseNamespace, or set the environment variable POD_NAMESPACE: %w", err)
		}
	}
	if errs := validation.IsDNS1123Label(namespace); len(errs) > 0 {
		return "", fmt.Errorf("%q is not a valid namespace for the shard's Lease: %s; use sharding.LeaseNamespace", namespace, strings.Join(errs, "; "))
	}
	return namespace, nil
}
