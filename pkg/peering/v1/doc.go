// Package v1 has the kinds by which operators know of each other: ClusterKopfPeering, and KopfPeering in a namespace.
// They are kopf's: operators in Python and in Go use the same objects.
//
// # Flow
//
// People create the objects, once. Operators put records of themselves into the status, under their identities, and
// look at those of the others; package peering does it.
//
// # Guarantees
//
// Records of any shape are kept as they are: the schema does not know what is in them.
//
// # Assumptions
//
// The CustomResourceDefinitions are those of config/crd, or kopf's. They have no status subresource; objects with
// one are understood too.
//
// # Caveats
//
// The group zalando.org, which older operators use, has the same kinds; the types here are of kopf.dev alone.
//
// # Errors
//
// None.
//
// +kubebuilder:object:generate=true
// +groupName=kopf.dev
package v1
