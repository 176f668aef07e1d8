// Package olm writes and validates bundles of the Operator Lifecycle Manager (OLM), in the format registry+v1.
//
//	objects, err := olm.ReadObjects(file) // for example the output of "kustomize build config/manifests"
//	err = olm.Write("bundle", olm.Options{
//		Package: "shop", Version: "0.1.0", Channels: []string{"stable"}, Image: "registry.example.com/shop:v0.1.0", Objects: objects,
//	})
//
// [Write] takes the objects of an ordinary deployment: the Deployment, the roles with their bindings, the CRDs and the webhook
// configurations. It also needs a ClusterServiceVersion with the texts for users. Write validates the bundle before it replaces
// an existing bundle.
//
// [Validate] applies the validators of github.com/operator-framework/api and the rules of OLM v1. It needs neither a cluster nor a registry.
package olm
