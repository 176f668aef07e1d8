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

// A FieldUser is a [Store] or a [Baseline] that keeps something elsewhere than in annotations. Every
// kind has annotations; any other field is dropped without a word by a Go type or by the schema of a
// custom resource that does not have it, and with it all that was remembered. [CheckType] and
// [CheckSchema] tell that before anything is lost.
type FieldUser interface {
	// Fields returns the innermost fields that are needed, as dotted paths such as
	// "status.kopf.last-handled-configuration". An element "*" stands for any key:
	// "status.kopf.progress.*.started".
	Fields() []string
}

// CheckType tells which fields that a [Store] or a [Baseline] needs are not in the Go type of the
// object. It has no objection to stores that are no [FieldUser], nor to unstructured objects.
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
	lost := missing(fields, func(path []string) int { return fitting(t, path) })
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("the Go type %T has no field %s: what is kept there would be lost in decoding: add it, "+
		"or use Annotations and AnnotationBaseline", obj, strings.Join(lost, ", "))
}

// CheckSchema tells which fields that a [Store] or a [Baseline] needs would be pruned by the API
// server, because the schema of the kind does not have them. The schema is that of one version of a
// CustomResourceDefinition; nil, there is no objection.
func CheckSchema(schema *apiextensionsv1.JSONSchemaProps, store any) error {
	user, ok := store.(FieldUser)
	if !ok || schema == nil {
		return nil
	}
	lost := missing(user.Fields(), func(path []string) int { return Unpruned(schema, path...) })
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("the schema of the kind has no field %s: the API server would drop what is kept there: add it, "+
		"or x-kubernetes-preserve-unknown-fields above it, or use Annotations and AnnotationBaseline", strings.Join(lost, ", "))
}

// missing returns, for the fields that do not fit entirely, how far they would have to be added. How
// many elements of a path do fit is for the function to say.
func missing(fields []string, fit func(path []string) int) []string {
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

var marshaler = reflect.TypeFor[json.Marshaler]()

// fitting returns how many elements of a path the JSON form of a Go type can have.
func fitting(t reflect.Type, path []string) int {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case len(path) == 0:
		return 0
	case t.Kind() == reflect.Interface, t.Implements(marshaler), reflect.PointerTo(t).Implements(marshaler):
		return len(path) // free in its form
	case t.Kind() == reflect.Map:
		return 1 + fitting(t.Elem(), path[1:])
	case t.Kind() != reflect.Struct:
		return 0
	}
	best := 0
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == path[0]:
			best = max(best, 1+fitting(field.Type, path[1:]))
		case name == "" && field.Anonymous:
			best = max(best, fitting(field.Type, path))
		}
	}
	return best
}

// Unpruned returns how many elements of a path the API server keeps of a custom resource, by the schema of its kind: all, or
// those before the first that is dropped. The element "*" stands for any item of a list, as it does for any key. Only the structural part of a
// schema counts: what stands under allOf and the like does not save a field. What a schema refers to is not known here,
// and not thought to drop anything.
func Unpruned(schema *apiextensionsv1.JSONSchemaProps, path ...string) int {
	if len(path) == 0 {
		return 0
	}
	if refers(schema) {
		return len(path)
	}
	preserved := schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields
	if inner, ok := schema.Properties[path[0]]; ok {
		return 1 + Unpruned(&inner, path[1:]...) // also where unknown fields are preserved
	}
	if items := schema.Items; items != nil && items.Schema != nil && path[0] == "*" {
		return 1 + Unpruned(items.Schema, path[1:]...)
	}
	switch others := schema.AdditionalProperties; {
	case others != nil && others.Schema != nil:
		return 1 + Unpruned(others.Schema, path[1:]...)
	case others != nil:
		return 1 // values of any type, but of objects nothing is kept
	case preserved:
		return len(path)
	}
	return 0
}

// refers reports whether a schema stands elsewhere: those of the kinds of Kubernetes do, as they are published.
func refers(schema *apiextensionsv1.JSONSchemaProps) bool {
	return schema.Ref != nil ||
		slices.ContainsFunc(schema.AllOf, func(part apiextensionsv1.JSONSchemaProps) bool { return part.Ref != nil })
}
