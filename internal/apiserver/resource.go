package apiserver

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// A Resource is one version of a kind.
type Resource struct {
	GroupVersion  schema.GroupVersion
	Kind, Plural  string
	HasStatus     bool // whether the kind has the status subresource
	ClusterScoped bool // whether the kind's objects have no namespace
	ShortNames    []string

	selectable []string                                         // fields that field selectors can use, in addition to the name and namespace
	columns    []apiextensionsv1.CustomResourceColumnDefinition // that kubectl shows
	schema     *apiextensionsv1.JSONSchemaProps                 // if nil, the server preserves all fields outside of the metadata
}

func (r Resource) gvk() schema.GroupVersionKind { return r.GroupVersion.WithKind(r.Kind) }

func (r Resource) gvr() schema.GroupVersionResource { return r.GroupVersion.WithResource(r.Plural) }

func (r Resource) gr() schema.GroupResource { return r.gvr().GroupResource() }

func (r Resource) gk() schema.GroupKind { return r.gvk().GroupKind() }

// mergeResources drops a resource if a later one has the same kind or plural name in the same version.
func mergeResources(resources []Resource) []Resource {
	var out []Resource
	for _, r := range resources {
		out = slices.DeleteFunc(out, func(former Resource) bool { return former.gvk() == r.gvk() || former.gvr() == r.gvr() })
		out = append(out, r)
	}
	return out
}

// served returns the resources that the server serves. The caller must not modify the result.
func (s *Server) served() []Resource { return *s.resources.Load() }

// serveOnly replaces the served resources. It keeps the objects of resources that are no longer served.
func (s *Server) serveOnly(resources []Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resources.Store(&resources)
	clear(s.schemas)
}

func (s *Server) resource(gv schema.GroupVersion, plural string) (Resource, bool) {
	i := slices.IndexFunc(s.served(), func(r Resource) bool { return r.GroupVersion == gv && r.Plural == plural })
	if i < 0 {
		return Resource{}, false
	}
	return s.served()[i], true
}

func (s *Server) resourceOfKind(gvk schema.GroupVersionKind) (Resource, bool) {
	i := slices.IndexFunc(s.served(), func(r Resource) bool { return r.gvk() == gvk })
	if i < 0 {
		return Resource{}, false
	}
	return s.served()[i], true
}

// apiGroups returns all groups except the core group. Each group lists its preferred version first.
func (s *Server) apiGroups() []metav1.APIGroup {
	var out []metav1.APIGroup
	for _, r := range s.served() {
		gv := r.GroupVersion
		if gv.Group == "" {
			continue
		}
		i := slices.IndexFunc(out, func(g metav1.APIGroup) bool { return g.Name == gv.Group })
		if i < 0 {
			out = append(out, metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: gv.Group})
			i = len(out) - 1
		}
		has := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		if !slices.Contains(out[i].Versions, has) {
			out[i].Versions = append(out[i].Versions, has)
		}
	}
	for i := range out {
		slices.SortFunc(out[i].Versions, func(a, b metav1.GroupVersionForDiscovery) int {
			return -version.CompareKubeAwareVersionStrings(a.Version, b.Version)
		})
		out[i].PreferredVersion = out[i].Versions[0]
	}
	return out
}
