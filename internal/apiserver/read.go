package apiserver

import (
	"cmp"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func (s *Server) get(q *request) (reply, error) {
	if q.replica != nil {
		obj, found := s.stateAt(q.asOf)[q.key()]
		if !found {
			return reply{}, apierrors.NewNotFound(q.gr(), q.name)
		}
		return ok(q.view.of(obj)), nil
	}
	obj, err := s.storedObject(q)
	return ok(q.view.of(obj)), err
}

// storedObject returns the object that a request names, or a not-found error.
func (s *Server) storedObject(q *request) (object, error) {
	obj, found := s.objects[q.key()]
	if !found {
		return nil, apierrors.NewNotFound(q.gr(), q.name)
	}
	return obj, nil
}

func (s *Server) list(q *request) reply {
	objs := s.selectObjects(q)
	version := object{"resourceVersion": strconv.FormatInt(s.readVersion(q), 10)}
	if q.view.form == asTable {
		return ok(withField(tableOf(q.view.columns, objs...), "metadata", version))
	}
	items := []any{}
	for _, obj := range objs {
		item := q.view.of(obj)
		if isBuiltin(q.Resource) && q.view.form == whole {
			// The list implies the apiVersion and kind of its items.
			item = withField(withField(item, "kind", nil), "apiVersion", nil)
		}
		items = append(items, item)
	}
	apiVersion, kind := q.view.list(q.Resource)
	return ok(object{"apiVersion": apiVersion, "kind": kind, "metadata": version, "items": items})
}

// selectObjects returns the objects that a request selects, sorted by namespace and name.
func (s *Server) selectObjects(q *request) []object {
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

// covers reports whether a key is in the collection that the request path names. It ignores the target's name.
func (t target) covers(k key) bool {
	return k.gvr == t.gvr() && (t.namespace == "" || k.namespace == t.namespace)
}
