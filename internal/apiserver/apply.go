package apiserver

import (
	"fmt"
	"maps"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kopf-runtime/kopf-runtime/internal/crdschema"
)

// apply handles a server-side apply. It creates the object if it is missing, and otherwise merges the configuration into it.
func (s *Server) apply(q *request) (reply, error) {
	patch, err := fromYAML(q.body)
	if err != nil {
		return reply{}, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	before, known := s.objects[q.key()]
	if uid := text(metaOf(patch), "uid"); !known && uid != "" {
		return reply{}, apierrors.NewConflict(q.gr(), q.name, fmt.Errorf(
			"uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	live := runtime.DeepCopyJSON(before)
	if !known {
		live = object{"apiVersion": q.GroupVersion.String(), "kind": q.Kind}
	}
	fields, err := s.manager(q)
	if err != nil {
		return reply{}, err
	}
	result, err := fields.Apply(&unstructured.Unstructured{Object: live}, &unstructured.Unstructured{Object: patch}, q.manager, q.force)
	if err != nil {
		return reply{}, err
	}
	wanted, err := toJSONObject(result)
	if err != nil {
		return reply{}, err
	}
	if isBuiltin(q.Resource) {
		wanted, err = s.normalize(q.Resource, wanted)
	} else {
		wanted, err = s.applySchema(q.Resource, wanted, (*crdschema.Schema).PruneAndDefaultApplied)
	}
	if err != nil {
		return reply{}, err
	}
	if known {
		return s.write(q, before, wanted)
	}
	if q.subresource != "" {
		return reply{}, apierrors.NewNotFound(q.gr(), q.name)
	}
	obj, err := s.createObject(q, wanted)
	return reply{code: http.StatusCreated, value: q.view.of(obj)}, err
}

// trackManagers updates the managed fields for a write other than an apply. An object has no managed fields until its first apply, which
// assigns the existing fields to before-first-apply, as a real server does.
func (s *Server) trackManagers(q *request, before, wanted object) object {
	managed := metaOf(before)["managedFields"]
	if managed == nil {
		return withField(wanted, "metadata", withField(metaOf(wanted), "managedFields", nil))
	}
	fields, err := s.manager(q)
	if err == nil {
		live, next := unstructured.Unstructured{Object: runtime.DeepCopyJSON(before)}, unstructured.Unstructured{Object: runtime.DeepCopyJSON(wanted)}
		var result runtime.Object
		if result, err = fields.Update(&live, &next, q.updater()); err == nil {
			if out, err := toJSONObject(result); err == nil {
				return out
			}
		}
	}
	// A real server, too, keeps the stored managed fields after an error.
	return withField(wanted, "metadata", withField(metaOf(wanted), "managedFields", managed))
}

func toJSONObject(obj runtime.Object) (object, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
}

// withoutTimes drops the times of an object's managed fields, because a new time alone doesn't count as a change.
func withoutTimes(obj object) object {
	managed, ok := metaOf(obj)["managedFields"].([]any)
	if !ok {
		return obj
	}
	entries := make([]any, 0, len(managed))
	for _, entry := range managed {
		if fields, ok := entry.(object); ok {
			fields = maps.Clone(fields)
			delete(fields, "time")
			entry = fields
		}
		entries = append(entries, entry)
	}
	return withField(obj, "metadata", withField(metaOf(obj), "managedFields", entries))
}
