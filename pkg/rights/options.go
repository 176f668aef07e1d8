package rights

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Options configure kopf.WriteRights.
type Options struct {
	// Name is the name of the roles and bindings. Required.
	Name string
	// ServiceAccount adds a ServiceAccount and bindings to it. Default: only roles.
	ServiceAccount string
	// Namespace is the operator's namespace. Required with ServiceAccount, with LeaderElection, with self-managed certificates of webhooks,
	// and with kopf.WithSharding unless the ring has a namespace.
	Namespace string
	// Namespaces restricts the permissions to namespaces, for example to those of the manager's cache. Default: the namespaces of
	// kopf.WithNamespaces if all its patterns are plain names, otherwise the cluster.
	Namespaces []string
	// LeaderElection adds the permissions for the manager's leader election.
	LeaderElection bool
	// Kinds contains the served kinds with their groups, for example from a discovery client. WriteRights looks up the plurals, scopes and
	// subresources of the operator's kinds there, and the kinds that kopf.ForKinds selects.
	//
	// Without Kinds, WriteRights has to guess the plurals. It assumes that all kinds except built-in cluster-scoped ones are namespaced,
	// and that a kind has a status subresource if its Go type has a field "status", or if it is unstructured. A pattern of ForKinds must
	// then have the form plural.group, and the roles will lack permissions for the related kinds of its declaration, such as those of Owns.
	Kinds []metav1.APIResource
}

// A Check says what the operator does if it lacks permissions when it starts. See kopf.WithRightsCheck.
type Check int

const (
	// RequireWatch makes the start fail if the permission to watch a kind or a related kind is missing. With kopf.WithSharding, it also
	// requires the permissions for the shard's Lease and for the labels of the objects. Other missing permissions are only logged. This is
	// the default.
	RequireWatch Check = iota
	// RequireAll makes the start fail if any permission that is not optional is missing. Missing optional permissions are only logged.
	RequireAll
	// Warn only logs missing permissions.
	Warn
	// Skip disables the check.
	Skip
)
