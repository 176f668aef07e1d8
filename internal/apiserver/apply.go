package apiserver

import (
	"fmt"
	"maps"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// apply merges what a manager of fields wants into an object, or makes it.
func (s *Server) apply(q *request) (answer, error) {
	patch, err := fromYAML(q.body)
	if err != nil {
		return answer{}, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	before, known := s.objects[q.key()]
	if uid := text(metaOf(patch), "uid"); !known && uid != "" {
		return answer{}, apierrors.NewConflict(q.gr(), q.name, fmt.Errorf(
			"uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	live := runtime.DeepCopyJSON(before)
	if !known {
		live = object{"apiVersion": q.GroupVersion.String(), "kind": q.Kind}
	}
	fields, err := s.manager(q)
	if err != nil {
		return answer{}, err
	}
	result, err := fields.Apply(&unstructured.Unstructured{Object: live}, &unstructured.Unstructured{Object: patch}, q.manager, q.force)
	if err != nil {
		return answer{}, err
	}
	wanted, err := contentOf(result)
	if err != nil {
		return answer{}, err
	}
	if wanted, err = s.canonical(q.Resource, wanted); err != nil {
		return answer{}, err
	}
	if known {
		return s.write(q, before, wanted)
	}
	if q.subresource != "" {
		return answer{}, apierrors.NewNotFound(q.gr(), q.name)
	}
	obj, err := s.made(q, wanted)
	return answer{code: http.StatusCreated, value: q.view.of(obj)}, err
}

// tracked takes note of whose fields are written by other means than apply. It begins with the first apply: until
// then, an object has no managed fields, and the first apply finds all of them in the hands of before-first-apply.
func (s *Server) tracked(q *request, before, wanted object) object {
	managed := metaOf(before)["managedFields"]
	if managed == nil {
		return with(wanted, "metadata", with(metaOf(wanted), "managedFields", nil))
	}
	fields, err := s.manager(q)
	if err == nil {
		live, next := unstructured.Unstructured{Object: runtime.DeepCopyJSON(before)}, unstructured.Unstructured{Object: runtime.DeepCopyJSON(wanted)}
		var result runtime.Object
		if result, err = fields.Update(&live, &next, q.updater()); err == nil {
			if out, err := contentOf(result); err == nil {
				return out
			}
		}
	}
	return with(wanted, "metadata", with(metaOf(wanted), "managedFields", managed)) // as a real server does if it cannot tell
}

func contentOf(obj runtime.Object) (object, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
}

// withoutTimes is an object without the times of its managed fields: they are no change by themselves.
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
	return with(obj, "metadata", with(metaOf(obj), "managedFields", entries))
}
