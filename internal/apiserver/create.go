package apiserver

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

func (s *Server) create(q *request) (reply, error) {
	obj, err := q.object()
	if err != nil {
		return reply{}, err
	}
	obj, err = s.normalize(q.Resource, withField(obj, "metadata", withField(metaOf(obj), "managedFields", nil)))
	if err != nil {
		return reply{}, apierrors.NewBadRequest(err.Error())
	}
	obj, err = s.createObject(q, obj)
	return reply{code: http.StatusCreated, value: q.view.of(obj)}, err
}

// createObject validates and stores a new object, which must already be normalized, and returns it. A dry run stores nothing.
func (s *Server) createObject(q *request, obj object) (object, error) {
	obj, meta := ownMeta(obj)
	versioned := q.Method == http.MethodPost && text(meta, "resourceVersion") != ""
	for _, field := range []string{
		"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink",
	} {
		delete(meta, field)
	}
	if err := q.checkName(meta); err != nil {
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
		setInitialStatus(q.Resource, obj)
	}
	if err := s.validate(q, obj, nil); err != nil {
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
	case q.dryRun:
		return obj, nil
	}
	return s.store(k, runtime.DeepCopyJSON(obj)), nil
}

// setInitialStatus removes a new object's status. Objects of built-in kinds then get their initial status.
func setInitialStatus(r Resource, obj object) {
	delete(obj, "status")
	if !isBuiltin(r) {
		return
	}
	status := object{}
	if phase := initialPhases[r.gr()]; phase != "" {
		status["phase"] = phase
	}
	obj["status"] = status
}
