package progress

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A FieldUser is a [Store] or a [Baseline] that uses fields other than annotations. If the Go type or the schema lacks such a field, its
// value is lost without an error. [CheckType] and [CheckSchema] detect this.
type FieldUser interface {
	// Fields returns the innermost required fields as dotted paths, such as "status.kopf.last-handled-configuration". The element "*"
	// matches any key: "status.kopf.progress.*.started".
	Fields() []string
}

// CheckType returns an error if the Go type of the object lacks a field that the [Store] or [Baseline] uses. It returns nil if the store
// isn't a [FieldUser] or if the object is unstructured.
func CheckType(obj client.Object, store any) error {
	user, ok := store.(FieldUser)
	if !ok {
		return nil
	}
	return checkType(obj, user.Fields()...)
}

func checkType(obj client.Object, fields ...string) error {
	if _, ok := obj.(*unstructured.Unstructured); ok {
		return nil
	}
	t := reflect.TypeOf(obj)
	missing := missingFields(fields, func(path []string) int { return typeDepth(t, path) })
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("the Go type %T has no field %s: decoding would drop the stored progress; add the field, "+
		"or use Annotations and AnnotationBaseline", obj, strings.Join(missing, ", "))
}

// CheckSchema returns an error if the API server would prune a field that the [Store] or [Baseline] uses. Pass the schema of one version of
// a CustomResourceDefinition. Nil is always valid.
func CheckSchema(schema *apiextensionsv1.JSONSchemaProps, store any) error {
	user, ok := store.(FieldUser)
	if !ok || schema == nil {
		return nil
	}
	missing := missingFields(user.Fields(), func(path []string) int { return PreservedDepth(schema, path...) })
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("schema has no field %s: the API server would prune the stored progress; add the field, "+
		"or set x-kubernetes-preserve-unknown-fields above it, or use Annotations and AnnotationBaseline", strings.Join(missing, ", "))
}

// missingFields returns the outermost missing part of each incomplete field. The function fit returns the number of existing elements of a
// path.
func missingFields(fields []string, fit func(path []string) int) []string {
	var out []string
	for _, field := range fields {
		path := strings.Split(field, ".")
		if n := fit(path); n < len(path) {
			if outermost := strings.Join(path[:n+1], "."); !slices.Contains(out, outermost) {
				out = append(out, outermost)
			}
		}
	}
	return out
}

var jsonMarshaler = reflect.TypeFor[json.Marshaler]()

// typeDepth returns the number of path elements that the JSON form of a Go type can have.
func typeDepth(t reflect.Type, path []string) int {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case len(path) == 0:
		return 0
	case t.Kind() == reflect.Interface, t.Implements(jsonMarshaler), reflect.PointerTo(t).Implements(jsonMarshaler):
		return len(path) // any content is possible
	case t.Kind() == reflect.Map:
		return 1 + typeDepth(t.Elem(), path[1:])
	case t.Kind() != reflect.Struct:
		return 0
	}
	best := 0
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == path[0]:
			best = max(best, 1+typeDepth(field.Type, path[1:]))
		case name == "" && field.Anonymous:
			best = max(best, typeDepth(field.Type, path))
		}
	}
	return best
}

// PreservedDepth returns the number of path elements that the API server preserves according to the schema. The element "*" matches any key
// of a map and any item of a list. Only the structural part of the schema counts, because allOf and the like don't preserve a field.
// PreservedDepth doesn't resolve references, but assumes that they preserve all fields.
func PreservedDepth(schema *apiextensionsv1.JSONSchemaProps, path ...string) int {
	if len(path) == 0 {
		return 0
	}
	if hasRef(schema) {
		return len(path)
	}
	preserved := schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields
	if inner, ok := schema.Properties[path[0]]; ok {
		return 1 + PreservedDepth(&inner, path[1:]...) // even if unknown fields are preserved, the property has its own schema
	}
	if items := schema.Items; items != nil && items.Schema != nil && path[0] == "*" {
		return 1 + PreservedDepth(items.Schema, path[1:]...)
	}
	switch additional := schema.AdditionalProperties; {
	case additional != nil && additional.Schema != nil:
		return 1 + PreservedDepth(additional.Schema, path[1:]...)
	case additional != nil:
		return 1 // scalar values are preserved, but fields of objects are not
	case preserved:
		return len(path)
	}
	return 0
}

// hasRef reports whether a schema refers to a different one, as the published schemas of built-in kinds do.
func hasRef(schema *apiextensionsv1.JSONSchemaProps) bool {
	return schema.Ref != nil ||
		slices.ContainsFunc(schema.AllOf, func(part apiextensionsv1.JSONSchemaProps) bool { return part.Ref != nil })
}
