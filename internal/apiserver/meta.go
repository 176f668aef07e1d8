package apiserver

import (
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func now() string { return time.Now().UTC().Format(time.RFC3339) }

// suffix is the end of a generated name.
func (s *Server) suffix() string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	var out strings.Builder
	for range 5 {
		out.WriteByte(letters[s.rand.IntN(len(letters))])
	}
	return out.String()
}

func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// valid checks the metadata of an object, and their change if there was one before.
func valid(r Resource, obj, before object) error {
	meta, err := metaAs(obj)
	if err != nil {
		return err
	}
	path := field.NewPath("metadata")
	errs := validation.ValidateObjectMeta(meta, !r.OfCluster, naming(r), path)
	if before != nil {
		was, err := metaAs(before)
		if err != nil {
			return err
		}
		errs = append(errs, validation.ValidateObjectMetaUpdate(meta, was, path)...)
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(r.gk(), meta.Name, errs)
	}
	return nil
}

func metaAs(obj object) (*metav1.ObjectMeta, error) {
	out := &metav1.PartialObjectMetadata{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object{"metadata": metaOf(obj)}, out); err != nil {
		return nil, apierrors.NewBadRequest("metadata: " + err.Error())
	}
	return &out.ObjectMeta, nil
}
