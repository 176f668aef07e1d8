package apiserver

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A target is what the path of a request names.
type target struct {
	Resource
	namespace, name, subresource string
}

func (t target) key() key { return key{t.Plural, t.namespace, t.name} }

// route finds out what is asked for.
func (s *Server) route(r *http.Request) answer {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	base := []string{"apis", s.group.Group, s.group.Version}
	if len(path) <= len(base) {
		return s.discover(path)
	}
	for i, part := range base {
		if path[i] != part {
			return notFound(r.URL.Path)
		}
	}
	t, ok := s.target(path[len(base):])
	if !ok {
		return notFound(r.URL.Path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case t.name != "":
		return s.single(r, t)
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		return s.watch(r, t)
	case r.Method == http.MethodGet:
		return s.list(t)
	case r.Method == http.MethodPost && t.namespace != "":
		return s.create(r, t)
	default:
		return failure(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, r.Method+" is not supported")
	}
}

// target reads [namespaces/<namespace>/]<plural>[/<name>[/status]].
func (s *Server) target(path []string) (t target, ok bool) {
	if len(path) > 2 && path[0] == "namespaces" {
		t.namespace, path = path[1], path[2:]
	}
	if t.Resource, ok = s.resource(path[0]); !ok || len(path) > 3 {
		return t, false
	}
	if len(path) > 1 {
		t.name = path[1]
	}
	if len(path) > 2 {
		t.subresource = path[2]
		return t, t.subresource == "status" && t.HasStatus
	}
	return t, true
}

func (s *Server) single(r *http.Request, t target) answer {
	switch {
	case t.namespace == "":
		return notFound(r.URL.Path)
	case r.Method == http.MethodGet:
		return s.get(t)
	case r.Method == http.MethodPut:
		return s.update(r, t)
	case r.Method == http.MethodPatch:
		return s.patch(r, t)
	case r.Method == http.MethodDelete && t.subresource == "":
		return s.remove(r, t)
	default:
		return failure(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, r.Method+" is not supported")
	}
}
