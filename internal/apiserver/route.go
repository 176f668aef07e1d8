package apiserver

import (
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A target is what the path of a request names.
type target struct {
	Resource
	namespace, name, subresource string
}

func (t target) key() key { return key{t.gvr(), t.namespace, t.name} }

// route finds out what is asked for.
func (s *Server) route(r *http.Request, replica *Replica) (answer, error) {
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
		return answer{}, err
	}
	q, err := s.request(r, t)
	if err != nil {
		return answer{}, err
	}
	if replica != nil {
		if err := replica.prepare(q); err != nil {
			return answer{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serve(q)
}

// target reads [namespaces/<namespace>/]<plural>[/<name>[/status]]. The object of a namespace is in no namespace.
func (s *Server) target(gv schema.GroupVersion, path []string) (t target, err error) {
	if len(path) > 2 && path[0] == "namespaces" {
		if _, within := s.resource(gv, path[2]); within {
			t.namespace, path = path[1], path[2:]
		}
	}
	var ok bool
	if t.Resource, ok = s.resource(gv, path[0]); !ok || len(path) > 3 || t.OfCluster != (t.namespace == "") && (t.OfCluster || len(path) > 1) {
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

// serve answers a request for objects.
func (s *Server) serve(q *request) (answer, error) {
	switch all := q.name == ""; {
	case all && q.Method == http.MethodGet && q.watches:
		return s.watch(q)
	case all && q.Method == http.MethodGet:
		return s.list(q), nil
	case all && q.Method == http.MethodPost && (q.OfCluster || q.namespace != ""):
		return s.create(q)
	case all && q.Method == http.MethodDelete && (q.OfCluster || q.namespace != ""):
		return s.removeAll(q)
	case !all && q.Method == http.MethodGet:
		return s.get(q)
	case !all && q.Method == http.MethodPut:
		return s.update(q)
	case !all && q.Method == http.MethodPatch:
		return s.patch(q)
	case !all && q.Method == http.MethodDelete && q.subresource == "":
		return s.remove(q)
	case !isBuiltin(q.Resource) && !q.OfCluster && q.namespace == "":
		return answer{}, errNoPath
	case !isBuiltin(q.Resource):
		return answer{}, apierrors.NewMethodNotSupported(q.gr(), strings.ToLower(q.Method))
	default:
		return answer{}, failure(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
			"the server does not allow this method on the requested resource")
	}
}
