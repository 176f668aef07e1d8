package apiserver

import (
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func now() string { return time.Now().UTC().Format(time.RFC3339) }

func (s *Server) uid() string {
	// Shard selectors depend on the first digits, so multiply to spread them like those of random UIDs.
	scattered := uint32(s.version+1) * 2654435769
	return fmt.Sprintf("%08x-0000-0000-0000-%012d", scattered, s.version+1)
}

// suffix returns the random part of a generated name.
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

// validate checks an object's kind, its metadata and, for an update, what has changed in the metadata. If the kind has a schema, it
// validates the other fields, too.
func (s *Server) validate(q *request, obj, before object) error {
	r := q.Resource
	if err := checkUnchangedKind(r, obj); err != nil {
		return err
	}
	meta, err := metaAs(obj)
	if err != nil {
		return err
	}
	path := field.NewPath("metadata")
	errs := validation.ValidateObjectMeta(meta, !r.ClusterScoped, nameValidator(r), path)
	if before != nil {
		was, err := metaAs(before)
		if err != nil {
			return err
		}
		errs = append(errs, validation.ValidateObjectMetaUpdate(meta, was, path)...)
	}
	shape, err := s.schemaOf(r)
	if err != nil {
		return err
	}
	if shape != nil {
		errs = append(errs, shape.Validate(obj, q.subresource)...)
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(r.gk(), meta.Name, errs)
	}
	return nil
}

// checkUnchangedKind returns an error if an object's apiVersion or kind differs from the resource it is written to.
func checkUnchangedKind(r Resource, obj object) error {
	gv, err := schema.ParseGroupVersion(text(obj, "apiVersion"))
	path, kind := field.NewPath("apiVersion"), text(obj, "kind")
	switch {
	case err != nil || gv != r.GroupVersion:
		err = field.Invalid(path, obj["apiVersion"], "must be "+r.GroupVersion.String())
	case kind != r.Kind:
		err = field.Invalid(field.NewPath("kind"), kind, "must be "+r.Kind)
	default:
		return nil
	}
	var failure *field.Error
	errors.As(err, &failure)
	return apierrors.NewInvalid(schema.GroupKind{Group: gv.Group, Kind: kind}, text(metaOf(obj), "name"), field.ErrorList{failure})
}

func metaAs(obj object) (*metav1.ObjectMeta, error) {
	out := &metav1.PartialObjectMetadata{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object{"metadata": obj["metadata"]}, out); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	return &out.ObjectMeta, nil
}
