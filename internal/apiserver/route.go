package apiserver

import (
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A target is the object or collection that a request path names.
type target struct {
	Resource
	namespace, name, subresource string
}

func (t target) key() key { return key{t.gvr(), t.namespace, t.name} }

// route handles a request for objects or for discovery.
func (s *Server) route(r *http.Request, replica *Replica) (reply, error) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var gv schema.GroupVersion
	var rest []string
	switch {
	case path[0] == "api" && len(path) > 2:
		gv, rest = schema.GroupVersion{Version: path[1]}, path[2:]
	case path[0] == "apis" && len(path) > 3:
		gv, rest = schema.GroupVersion{Group: path[1], Version: path[2]}, path[3:]
	default:
		return s.discover(path)
	}
	t, err := s.target(gv, rest)
	if err != nil {
		return reply{}, err
	}
	q, err := s.request(r, t)
	if err != nil {
		return reply{}, err
	}
	if replica != nil {
		if err := replica.prepare(q); err != nil {
			return reply{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serve(q)
}

// target parses [namespaces/<namespace>/]<plural>[/<name>[/status]]. Namespaces themselves are cluster-scoped.
func (s *Server) target(gv schema.GroupVersion, path []string) (t target, err error) {
	if len(path) > 2 && path[0] == "namespaces" {
		if _, within := s.resource(gv, path[2]); within {
			t.namespace, path = path[1], path[2:]
		}
	}
	var ok bool
	if t.Resource, ok = s.resource(gv, path[0]); !ok || len(path) > 3 || t.ClusterScoped != (t.namespace == "") && (t.ClusterScoped || len(path) > 1) {
		return t, errNoPath
	}
	if len(path) > 1 {
		t.name = path[1]
	}
	if len(path) > 2 {
		t.subresource = path[2]
	}
	switch {
	case slices.Contains(path, ""):
		return t, errNoPath
	case t.subresource == "", t.subresource == "status" && t.HasStatus:
		return t, nil
	case isBuiltin(t.Resource):
		return t, errNoPath
	default:
		return t, apierrors.NewNotFound(t.gr(), t.name)
	}
}

func (s *Server) serve(q *request) (reply, error) {
	switch all := q.name == ""; {
	case all && q.Method == http.MethodGet && q.watches:
		return s.watch(q)
	case all && q.Method == http.MethodGet:
		return s.list(q), nil
	case all && q.Method == http.MethodPost && (q.ClusterScoped || q.namespace != ""):
		return s.create(q)
	case all && q.Method == http.MethodDelete && (q.ClusterScoped || q.namespace != ""):
		return s.deleteCollection(q)
	case !all && q.Method == http.MethodGet:
		return s.get(q)
	case !all && q.Method == http.MethodPut:
		return s.update(q)
	case !all && q.Method == http.MethodPatch:
		return s.patch(q)
	case !all && q.Method == http.MethodDelete && q.subresource == "":
		return s.delete(q)
	case !isBuiltin(q.Resource) && !q.ClusterScoped && q.namespace == "":
		return reply{}, errNoPath
	case !isBuiltin(q.Resource):
		return reply{}, apierrors.NewMethodNotSupported(q.gr(), strings.ToLower(q.Method))
	default:
		return reply{}, failure(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
			"the server does not allow this method on the requested resource")
	}
}
