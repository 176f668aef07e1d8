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

// update replaces an object. For some built-in kinds, it creates the object if it is missing.
func (s *Server) update(q *request) (reply, error) {
	obj, err := q.object()
	if err != nil {
		return reply{}, err
	}
	if obj, err = s.normalize(q.Resource, obj); err != nil {
		return reply{}, apierrors.NewBadRequest(err.Error())
	}
	obj, meta := ownMeta(obj)
	if err := q.checkName(meta); err != nil {
		return reply{}, err
	}
	before, err := s.storedObject(q)
	uid := text(meta, "uid")
	switch {
	case err != nil && createsOnUpdate(q.Resource) && q.subresource == "":
		obj, err := s.createObject(q, withField(obj, "metadata", withField(meta, "managedFields", nil)))
		return reply{code: http.StatusCreated, value: q.view.of(obj)}, err
	case err != nil:
		return reply{}, err
	case uid != "" && uid != text(metaOf(before), "uid"):
		return reply{}, apierrors.NewConflict(q.gr(), q.name, fmt.Errorf(
			"precondition failed: UID in precondition: %v, UID in object meta: %v", uid, text(metaOf(before), "uid")))
	}
	return s.write(q, before, s.trackManagers(q, before, obj))
}

// write checks the preconditions of a change, validates the result, and stores it. If the object is being deleted and the change removes
// its last finalizer, write removes the object. A dry run stores nothing.
func (s *Server) write(q *request, before, wanted object) (reply, error) {
	was := metaOf(before)
	wanted, meta := ownMeta(wanted)
	if err := q.checkName(meta); err != nil {
		return reply{}, err
	}
	version := text(meta, "resourceVersion")
	if _, err := strconv.ParseUint(version, 10, 64); version != "" && err != nil {
		return reply{}, err
	}
	switch {
	case version == "" && !allowsUnconditionalUpdate(q.Resource):
		return reply{}, apierrors.NewInvalid(schema.GroupKind{Group: q.GroupVersion.Group, Kind: q.Plural}, q.name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	case version != "" && version != text(was, "resourceVersion"):
		return reply{}, apierrors.NewConflict(q.gr(), q.name, errModified)
	}
	after := runtime.DeepCopyJSON(withStoredReadOnlyFields(q, before, wanted))
	if changesGeneration(q, before, after) {
		generation, _ := was["generation"].(int64)
		metaOf(after)["generation"] = generation + 1
	}
	if err := s.validate(q, after, before); err != nil {
		return reply{}, err
	}
	if reflect.DeepEqual(withoutTimes(before), withoutTimes(after)) {
		after = before
	}
	last := was["deletionTimestamp"] != nil && len(finalizers(after)) == 0 && isZero(was["deletionGracePeriodSeconds"])
	switch {
	case last && !q.dryRun:
		s.removeStored(q.key())
	case !q.dryRun && !reflect.DeepEqual(before, after):
		after = s.store(q.key(), after)
	}
	return ok(q.view.of(after)), nil
}

var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// withStoredReadOnlyFields returns the wanted object with the stored values of the read-only fields. It may modify wanted. For the status
// subresource, it returns the stored object with the wanted status and managed fields.
func withStoredReadOnlyFields(q *request, before, wanted object) object {
	was, meta := metaOf(before), metaOf(wanted)
	if q.subresource == "status" {
		managed := meta["managedFields"]
		return withField(withField(before, "status", wanted["status"]), "metadata", withField(was, "managedFields", managed))
	}
	if q.HasStatus {
		setField(wanted, "status", before["status"])
	}
	for _, field := range []string{"resourceVersion", "generation", "creationTimestamp"} {
		setField(meta, field, was[field])
	}
	for _, field := range []string{"uid", "deletionGracePeriodSeconds"} {
		if meta[field] == nil || meta[field] == "" {
			setField(meta, field, was[field])
		}
	}
	if was["deletionTimestamp"] != nil {
		meta["deletionTimestamp"] = was["deletionTimestamp"]
	}
	return wanted
}

func changesGeneration(q *request, before, after object) bool {
	switch {
	case q.subresource != "" || !hasGeneration(q.Resource):
		return false
	case q.gr() == schema.GroupResource{Group: "apps", Resource: "deployments"} &&
		!reflect.DeepEqual(metaOf(before)["annotations"], metaOf(after)["annotations"]):
		return true
	case q.HasStatus:
		return !equalExcept(before, after, "metadata", "status")
	default:
		return !equalExcept(before, after, "metadata")
	}
}

func isZero(seconds any) bool { return seconds == nil || seconds == int64(0) }
