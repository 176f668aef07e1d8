package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// update replaces an object.
func (s *Server) update(q *request) (answer, error) {
	obj, err := q.object()
	if err != nil {
		return answer{}, err
	}
	if obj, err = s.canonical(q.Resource, obj); err != nil {
		return answer{}, apierrors.NewBadRequest(err.Error())
	}
	obj, meta := ownMeta(obj)
	if err := q.placed(meta); err != nil {
		return answer{}, err
	}
	before, err := s.stored(q)
	uid := text(meta, "uid")
	switch {
	case err != nil && creatable(q.Resource) && q.subresource == "":
		obj, err := s.made(q, with(obj, "metadata", with(meta, "managedFields", nil)))
		return answer{code: http.StatusCreated, value: q.view.of(obj)}, err
	case err != nil:
		return answer{}, err
	case uid != "" && uid != text(metaOf(before), "uid"):
		return answer{}, apierrors.NewConflict(q.gr(), q.name, fmt.Errorf(
			"precondition failed: UID in precondition: %v, UID in object meta: %v", uid, text(metaOf(before), "uid")))
	}
	return s.write(q, before, s.tracked(q, before, obj))
}

// write puts a changed object in the place of the one before, as far as the preconditions hold and the subresource goes.
func (s *Server) write(q *request, before, wanted object) (answer, error) {
	was := metaOf(before)
	wanted, meta := ownMeta(wanted)
	if err := q.placed(meta); err != nil {
		return answer{}, err
	}
	version := text(meta, "resourceVersion")
	if _, err := strconv.ParseUint(version, 10, 64); version != "" && err != nil {
		return answer{}, err
	}
	switch {
	case version == "" && !unconditional(q.Resource):
		return answer{}, apierrors.NewInvalid(schema.GroupKind{Group: q.GroupVersion.Group, Kind: q.Plural}, q.name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	case version != "" && version != text(was, "resourceVersion"):
		return answer{}, apierrors.NewConflict(q.gr(), q.name, errModified)
	}
	after := runtime.DeepCopyJSON(prepared(q, before, wanted))
	if changes(q, before, after) {
		generation, _ := was["generation"].(int64)
		metaOf(after)["generation"] = generation + 1
	}
	if err := s.valid(q, after, before); err != nil {
		return answer{}, err
	}
	if reflect.DeepEqual(withoutTimes(before), withoutTimes(after)) {
		after = before
	}
	last := was["deletionTimestamp"] != nil && len(finalizers(after)) == 0 && isZero(was["deletionGracePeriodSeconds"])
	switch {
	case last && !q.dry:
		s.drop(q.key())
	case !q.dry && !reflect.DeepEqual(before, after):
		after = s.put(q.key(), after)
	}
	return ok(q.view.of(after)), nil
}

var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// prepared is what is wanted without what a write cannot change.
func prepared(q *request, before, wanted object) object {
	was, meta := metaOf(before), metaOf(wanted)
	if q.subresource == "status" {
		managed := meta["managedFields"]
		return with(with(before, "status", wanted["status"]), "metadata", with(was, "managedFields", managed))
	}
	if q.HasStatus {
		replace(wanted, "status", before["status"])
	}
	for _, field := range []string{"resourceVersion", "generation", "creationTimestamp"} {
		replace(meta, field, was[field])
	}
	for _, field := range []string{"uid", "deletionGracePeriodSeconds"} {
		if meta[field] == nil || meta[field] == "" {
			replace(meta, field, was[field])
		}
	}
	if was["deletionTimestamp"] != nil {
		meta["deletionTimestamp"] = was["deletionTimestamp"]
	}
	return wanted
}

// changes reports whether a write counts the generation up.
func changes(q *request, before, after object) bool {
	switch {
	case q.subresource != "" || !hasGeneration(q.Resource):
		return false
	case q.gr() == schema.GroupResource{Group: "apps", Resource: "deployments"} &&
		!reflect.DeepEqual(metaOf(before)["annotations"], metaOf(after)["annotations"]):
		return true
	case q.HasStatus:
		return !equalBut(before, after, "metadata", "status")
	default:
		return !equalBut(before, after, "metadata")
	}
}

func isZero(seconds any) bool { return seconds == nil || seconds == int64(0) }
