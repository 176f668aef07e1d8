// Package v1 contains the API types of peering objects: ClusterKopfPeering, and KopfPeering for a single namespace. kopf has the same
// kinds, so operators in Python and in Go can share objects.
//
// Users create the objects once. Operators write their records into the status and read the records of their peers. Package peering
// implements this protocol. The schema keeps unknown fields, so records of any shape are stored unchanged.
//
// The CustomResourceDefinitions are in config/crd, but kopf's work as well. The kinds have no status subresource, but package peering
// supports definitions with it. Older operators use the same kinds in the group zalando.org, for which this package has no Go types.
//
// +kubebuilder:object:generate=true
// +groupName=kopf.dev
package v1
