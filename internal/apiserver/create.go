package apiserver

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

func (s *Server) create(q *request) (answer, error) {
	obj, err := q.object()
	if err != nil {
		return answer{}, err
	}
	obj, err = s.made(q, with(obj, "metadata", with(metaOf(obj), "managedFields", nil)))
	return answer{code: http.StatusCreated, value: q.view.of(obj)}, err
}

// made adds a new object.
func (s *Server) made(q *request, obj object) (object, error) {
	obj, err := s.canonical(q.Resource, obj)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	obj, meta := ownMeta(obj)
	versioned := q.Method == http.MethodPost && text(meta, "resourceVersion") != ""
	for _, field := range []string{
		"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink",
	} {
		delete(meta, field)
	}
	if err := q.placed(meta); err != nil {
		return nil, err
	}
	prefix := text(meta, "generateName")
	generated := text(meta, "name") == "" && prefix != ""
	if generated {
		meta["name"] = prefix[:min(len(prefix), 58)] + s.suffix()
	}
	meta["uid"] = s.uid()
	meta["creationTimestamp"] = now()
	if hasGeneration(q.Resource) {
		meta["generation"] = int64(1)
	}
	if q.HasStatus {
		firstStatus(q.Resource, obj)
	}
	if err := s.valid(q, obj, nil); err != nil {
		return nil, err
	}
	if versioned {
		return nil, fmt.Errorf("resourceVersion should not be set on objects to be created")
	}
	k := key{q.gvr(), q.namespace, text(meta, "name")}
	switch former, taken := s.objects[k]; {
	case taken && generated:
		return nil, apierrors.NewGenerateNameConflict(q.gr(), k.name, 1)
	case taken:
		err := apierrors.NewAlreadyExists(q.gr(), k.name)
		if metaOf(former)["deletionTimestamp"] != nil {
			err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
		}
		return nil, err
	case q.dry:
		return obj, nil
	}
	return s.put(k, runtime.DeepCopyJSON(obj)), nil
}

// firstStatus takes the status from a new object; built-in kinds have an empty one.
func firstStatus(r Resource, obj object) {
	delete(obj, "status")
	if !isBuiltin(r) {
		return
	}
	status := object{}
	if phase := phases[r.gr()]; phase != "" {
		status["phase"] = phase
	}
	obj["status"] = status
}
