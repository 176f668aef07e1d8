package apiserver

import (
	"cmp"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func (s *Server) get(q *request) (answer, error) {
	if q.replica != nil {
		obj, found := s.stateAt(q.asOf)[q.key()]
		if !found {
			return answer{}, apierrors.NewNotFound(q.gr(), q.name)
		}
		return ok(q.view.of(obj)), nil
	}
	obj, err := s.stored(q)
	return ok(q.view.of(obj)), err
}

// stored is the object that a request is for.
func (s *Server) stored(q *request) (object, error) {
	obj, found := s.objects[q.key()]
	if !found {
		return nil, apierrors.NewNotFound(q.gr(), q.name)
	}
	return obj, nil
}

func (s *Server) list(q *request) answer {
	items := []any{}
	for _, obj := range s.selected(q) {
		item := q.view.of(obj)
		if isBuiltin(q.Resource) && q.view == whole {
			item = with(with(item, "kind", nil), "apiVersion", nil) // the list says it for all
		}
		items = append(items, item)
	}
	apiVersion, kind := q.view.list(q.Resource)
	return ok(object{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": object{"resourceVersion": strconv.FormatInt(s.readVersion(q), 10)}, "items": items,
	})
}

// selected are the objects that a request is for, by their namespaces and names.
func (s *Server) selected(q *request) []object {
	objects := s.objects
	if q.replica != nil {
		objects = s.stateAt(q.asOf)
	}
	var keys []key
	for k, obj := range objects {
		if q.covers(k) && q.matches(obj) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b key) int { return cmp.Compare(a.namespace+"/"+a.name, b.namespace+"/"+b.name) })
	var out []object
	for _, k := range keys {
		out = append(out, objects[k])
	}
	return out
}

// covers reports whether an object may be meant by its place.
func (t target) covers(k key) bool {
	return k.gvr == t.gvr() && (t.namespace == "" || k.namespace == t.namespace)
}
