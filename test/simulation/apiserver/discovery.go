package apiserver

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// discover answers the questions which groups and kinds there are.
func (s *Server) discover(path []string) answer {
	version := metav1.GroupVersionForDiscovery{GroupVersion: s.group.String(), Version: s.group.Version}
	group := metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"},
		Name:     s.group.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
	switch {
	case len(path) == 1 && path[0] == "api":
		return answer{http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}}, nil}
	case len(path) == 1 && path[0] == "apis":
		return answer{http.StatusOK, metav1.APIGroupList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{group},
		}, nil}
	case len(path) > 1 && path[0] == "apis" && path[1] == s.group.Group:
		if len(path) == 2 {
			return answer{http.StatusOK, group, nil}
		}
		if path[2] == s.group.Version {
			return answer{http.StatusOK, s.kinds(), nil}
		}
	}
	return notFound("/")
}

func (s *Server) kinds() metav1.APIResourceList {
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: s.group.String(),
	}
	add := func(name, kind string, verbs ...string) {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Kind: kind, Namespaced: true, Verbs: verbs})
	}
	for _, r := range s.resources {
		add(r.Plural, r.Kind, "create", "delete", "get", "list", "patch", "update", "watch")
		if r.HasStatus {
			add(r.Plural+"/status", r.Kind, "patch", "update")
		}
	}
	return list
}
