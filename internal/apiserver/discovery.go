package apiserver

import (
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// discover answers requests for the server's version, groups and resources. It doesn't support aggregated discovery, which clients notice
// from the media type of the response.
func (s *Server) discover(path []string) (reply, error) {
	groups := s.apiGroups()
	switch {
	case slices.Equal(path, []string{"version"}):
		return reply{code: http.StatusOK, value: version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.0"}}, nil
	case slices.Equal(path, []string{"api"}):
		return reply{code: http.StatusOK, value: metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}}, nil
	case slices.Equal(path, []string{"api", "v1"}):
		return s.resourceList(schema.GroupVersion{Version: "v1"}), nil
	case slices.Equal(path, []string{"apis"}):
		return reply{code: http.StatusOK, value: metav1.APIGroupList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: groups,
		}}, nil
	case path[0] != "apis" || len(path) > 3:
		return reply{}, errNoPath
	}
	i := slices.IndexFunc(groups, func(g metav1.APIGroup) bool { return g.Name == path[1] })
	switch {
	case i < 0:
		return reply{}, errNoPath
	case len(path) == 2:
		return reply{code: http.StatusOK, value: groups[i]}, nil
	case !slices.ContainsFunc(groups[i].Versions, func(v metav1.GroupVersionForDiscovery) bool { return v.Version == path[2] }):
		return reply{}, errNoPath
	default:
		return s.resourceList(schema.GroupVersion{Group: path[1], Version: path[2]}), nil
	}
}

func (s *Server) resourceList(gv schema.GroupVersion) reply {
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(), APIResources: []metav1.APIResource{},
	}
	add := func(r Resource, name, singular string, verbs ...string) {
		var short []string
		if singular != "" {
			short = r.ShortNames
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: name, SingularName: singular, Kind: r.Kind, Namespaced: !r.ClusterScoped, ShortNames: short, Verbs: verbs,
		})
	}
	for _, r := range s.served() {
		if r.GroupVersion != gv {
			continue
		}
		add(r, r.Plural, strings.ToLower(r.Kind), "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
		if r.HasStatus {
			add(r, r.Plural+"/status", "", "get", "patch", "update")
		}
	}
	return reply{code: http.StatusOK, value: list}
}
