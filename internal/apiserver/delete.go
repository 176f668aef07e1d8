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

func (s *Server) remove(q *request) (answer, error) {
	before, err := s.stored(q)
	if err != nil {
		return answer{}, err
	}
	options, err := q.deletion()
	if err != nil {
		return answer{}, err
	}
	after, err := s.removed(q, before, options)
	switch {
	case err != nil:
		return answer{}, err
	case after != nil && options.OrphanDependents != nil && !*options.OrphanDependents: //nolint:staticcheck // clients may still use it
		return answer{code: http.StatusAccepted, value: q.view.of(after)}, nil
	case after != nil:
		return ok(q.view.of(after)), nil
	case returned(q.Resource):
		return ok(q.view.of(before)), nil
	default:
		return ok(farewell(q.Resource, before)), nil
	}
}

// removeAll removes the objects that are selected, and answers with what they were.
func (s *Server) removeAll(q *request) (answer, error) {
	options, err := q.deletion()
	if err != nil {
		return answer{}, err
	}
	gone := s.list(q)
	for _, obj := range s.selected(q) {
		one := *q
		one.name = text(metaOf(obj), "name")
		if _, err := s.removed(&one, obj, options); err != nil {
			return answer{}, err
		}
	}
	return gone, nil
}

// removed deletes an object, or marks it if finalizers hold it: that is what is returned then.
func (s *Server) removed(q *request, before object, options *metav1.DeleteOptions) (object, error) {
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
	held := holders(finalizers(before), options)
	if len(held) == 0 {
		if !q.dry {
			s.drop(q.key())
		}
		return nil, nil
	}
	after, meta := ownMeta(runtime.DeepCopyJSON(before))
	setFinalizers(meta, held)
	if meta["deletionTimestamp"] == nil {
		meta["deletionTimestamp"] = now()
		if generation, _ := meta["generation"].(int64); generation > 0 {
			meta["generation"] = generation + 1
		}
	}
	meta["deletionGracePeriodSeconds"] = int64(0)
	if q.dry || reflect.DeepEqual(before, after) {
		return after, nil
	}
	return s.put(q.key(), after), nil
}

// holders are the finalizers of an object that is deleted in the way of some options.
func holders(list []string, options *metav1.DeleteOptions) []string {
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

// farewell is the answer to a deletion that has taken place.
func farewell(r Resource, obj object) metav1.Status {
	meta := metaOf(obj)
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name: text(meta, "name"), Group: r.GroupVersion.Group, Kind: r.Plural, UID: types.UID(text(meta, "uid")),
		},
	}
}
