package apiserver

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// FromScheme returns a resource for each kind of a scheme that has metadata and a list kind. It guesses plural names from the kinds, like
// controller-runtime, and assumes the status subresource if the Go type has a status field. Only Kubernetes' own cluster-scoped kinds are
// known to be cluster-scoped. For custom kinds, use FromCRDs, which knows the exact names and scopes.
//
// The versions of a kind become separate resources with separate objects.
func FromScheme(scheme *runtime.Scheme) []Resource {
	var out []Resource
	for gvk, t := range scheme.AllKnownTypes() {
		gv := gvk.GroupVersion()
		if gv.Version == runtime.APIVersionInternal || gv.Group == metav1.GroupName || !scheme.Recognizes(gv.WithKind(gvk.Kind+"List")) {
			continue
		}
		if _, stored := reflect.TypeAssert[metav1.Object](reflect.New(t)); !stored {
			continue
		}
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		out = append(out, Resource{
			GroupVersion: gv, Kind: gvk.Kind, Plural: plural.Resource,
			HasStatus: hasStatus(t), ShortNames: shortNames[plural.Resource], ClusterScoped: slices.Contains(clusterScopedKinds, gvk.GroupKind().String()),
		})
	}
	slices.SortFunc(out, func(a, b Resource) int {
		return cmp.Or(cmp.Compare(a.GroupVersion.String(), b.GroupVersion.String()), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}

// shortNames are the short names of common built-in kinds.
var shortNames = map[string][]string{
	"configmaps": {"cm"}, "daemonsets": {"ds"}, "deployments": {"deploy"}, "events": {"ev"}, "namespaces": {"ns"}, "nodes": {"no"},
	"persistentvolumeclaims": {"pvc"}, "persistentvolumes": {"pv"}, "pods": {"po"}, "replicasets": {"rs"}, "serviceaccounts": {"sa"}, "services": {"svc"},
	"statefulsets": {"sts"},
}

func hasStatus(t reflect.Type) bool {
	f, ok := t.FieldByName("Status")
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return ok && name == "status"
}

// FromCRDs returns a resource with a schema for each served version of the CRDs.
func FromCRDs(crds ...*apiextensionsv1.CustomResourceDefinition) []Resource {
	var out []Resource
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			if !v.Served {
				continue
			}
			r := Resource{
				GroupVersion: schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name},
				Kind:         crd.Spec.Names.Kind, Plural: crd.Spec.Names.Plural,
				HasStatus:     v.Subresources != nil && v.Subresources.Status != nil,
				ClusterScoped: crd.Spec.Scope == apiextensionsv1.ClusterScoped,
				ShortNames:    crd.Spec.Names.ShortNames,
				columns:       v.AdditionalPrinterColumns,
			}
			for _, f := range v.SelectableFields {
				r.selectable = append(r.selectable, strings.TrimPrefix(f.JSONPath, "."))
			}
			if v.Schema != nil {
				r.schema = v.Schema.OpenAPIV3Schema
			}
			out = append(out, r)
		}
	}
	return out
}
