package apiserver

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func (s *Server) delete(q *request) (reply, error) {
	before, err := s.storedObject(q)
	if err != nil {
		return reply{}, err
	}
	options, err := q.deleteOptions()
	if err != nil {
		return reply{}, err
	}
	after, err := s.deleteObject(q, before, options)
	switch {
	case err != nil:
		return reply{}, err
	case after != nil && options.OrphanDependents != nil && !*options.OrphanDependents: //nolint:staticcheck // clients may still use it
		return reply{code: http.StatusAccepted, value: q.view.of(after)}, nil
	case after != nil:
		return ok(q.view.of(after)), nil
	case returnsDeleted(q.Resource):
		return ok(q.view.of(before)), nil
	default:
		return ok(deletionStatus(q.Resource, before)), nil
	}
}

// deleteCollection deletes all selected objects and returns them as they were before.
func (s *Server) deleteCollection(q *request) (reply, error) {
	options, err := q.deleteOptions()
	if err != nil {
		return reply{}, err
	}
	deleted := s.list(q)
	for _, obj := range s.selectObjects(q) {
		one := *q
		one.name = text(metaOf(obj), "name")
		if _, err := s.deleteObject(&one, obj, options); err != nil {
			return reply{}, err
		}
	}
	return deleted, nil
}

// deleteObject deletes an object and returns nil. If finalizers block the deletion, it sets the deletion timestamp and returns the new
// state instead.
func (s *Server) deleteObject(q *request, before object, options *metav1.DeleteOptions) (object, error) {
	meta := metaOf(before)
	if p := options.Preconditions; p != nil {
		resource := schema.GroupResource{Group: q.GroupVersion.Group, Resource: q.Kind}
		if uid := types.UID(text(meta, "uid")); p.UID != nil && *p.UID != uid {
			return nil, apierrors.NewConflict(resource, q.name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). "+
				"The object might have been deleted and then recreated", *p.UID, uid))
		}
		if version := text(meta, "resourceVersion"); p.ResourceVersion != nil && *p.ResourceVersion != version {
			return nil, apierrors.NewConflict(resource, q.name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match "+
				"the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, version))
		}
	}
	blocking := blockingFinalizers(finalizers(before), options)
	if len(blocking) == 0 {
		if !q.dryRun {
			s.removeStored(q.key())
		}
		return nil, nil
	}
	after, meta := ownMeta(runtime.DeepCopyJSON(before))
	setFinalizers(meta, blocking)
	if meta["deletionTimestamp"] == nil {
		meta["deletionTimestamp"] = now()
		if generation, _ := meta["generation"].(int64); generation > 0 {
			meta["generation"] = generation + 1
		}
	}
	meta["deletionGracePeriodSeconds"] = int64(0)
	if q.dryRun || reflect.DeepEqual(before, after) {
		return after, nil
	}
	return s.store(q.key(), after), nil
}

// blockingFinalizers returns the finalizers that an object has once its deletion is requested. The propagation policy may add or remove
// one.
func blockingFinalizers(list []string, options *metav1.DeleteOptions) []string {
	own := ""
	switch orphan, policy := options.OrphanDependents, options.PropagationPolicy; { //nolint:staticcheck // clients may still use it
	case orphan != nil && *orphan, policy != nil && *policy == metav1.DeletePropagationOrphan:
		own = metav1.FinalizerOrphanDependents
	case policy != nil && *policy == metav1.DeletePropagationForeground:
		own = metav1.FinalizerDeleteDependents
	case orphan == nil && policy == nil:
		return list
	}
	if slices.Contains(list, own) {
		return list
	}
	list = slices.DeleteFunc(slices.Clone(list), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	if own != "" {
		list = append(list, own)
	}
	return list
}

func deletionStatus(r Resource, obj object) metav1.Status {
	meta := metaOf(obj)
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name: text(meta, "name"), Group: r.GroupVersion.Group, Kind: r.Plural, UID: types.UID(text(meta, "uid")),
		},
	}
}
