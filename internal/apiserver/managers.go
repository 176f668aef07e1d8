package apiserver

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// A manager maintains the managed fields of a kind's objects, either for writes to the objects or for writes to one subresource.
type manager = managedfields.FieldManager

// A managerKey identifies a manager. The subresource is empty for writes to the objects themselves.
type managerKey struct {
	gvk         schema.GroupVersionKind
	subresource string
}

func (s *Server) manager(q *request) (*manager, error) {
	id := managerKey{q.gvk(), q.subresource}
	if known := s.managers[id]; known != nil {
		return known, nil
	}
	var types managedfields.TypeConverter
	if isBuiltin(q.Resource) {
		types = builtinTypes()
	} else {
		var err error
		if types, err = newTypeConverter(q.Resource); err != nil {
			return nil, err
		}
	}
	reset := fieldpath.NewSet()
	switch {
	case q.subresource == "status":
		reset = fieldpath.NewSet(fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec"))
	case q.HasStatus:
		reset = fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	}
	gv := q.GroupVersion
	m, err := managedfields.NewDefaultCRDFieldManager(types, noConversion{}, noConversion{}, noConversion{}, id.gvk, gv, q.subresource,
		fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(gv.String()): reset}))
	if err != nil {
		return nil, err
	}
	s.managers[id] = m
	return m, nil
}

// noConversion implements the conversion, defaulting and creation interfaces that a manager needs. It leaves objects unchanged.
type noConversion struct{}

func (noConversion) Convert(_, _, _ any) error {
	return fmt.Errorf("apiserver: the conversion of objects is not supported")
}

func (noConversion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (noConversion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (noConversion) Default(runtime.Object) {}

func (noConversion) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(kind)
	return out, nil
}
