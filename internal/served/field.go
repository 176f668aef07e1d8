package served

import (
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/fieldtype"
)

// A Field is the type of a field in a published schema.
type Field struct {
	Props *apiextensionsv1.JSONSchemaProps
}

// JSON implements [fieldtype.Type].
func (f Field) JSON() fieldtype.JSON {
	p := f.Props
	switch {
	case p.XIntOrString, p.XEmbeddedResource, p.XPreserveUnknownFields != nil && *p.XPreserveUnknownFields, p.Ref != nil:
		return fieldtype.Any
	case p.Type == "object" && len(p.Properties) == 0 && (p.AdditionalProperties == nil || p.AdditionalProperties.Schema == nil):
		return fieldtype.Any
	}
	return map[string]fieldtype.JSON{
		"string": fieldtype.String, "integer": fieldtype.Integer, "number": fieldtype.Number, "boolean": fieldtype.Boolean, "array": fieldtype.List, "object": fieldtype.Object,
	}[p.Type]
}

// Child implements [fieldtype.Type].
func (f Field) Child(key string) fieldtype.Type {
	if props, ok := f.Props.Properties[key]; ok {
		return Field{&props}
	}
	if f.IsMap() {
		return Field{f.Props.AdditionalProperties.Schema}
	}
	return nil
}

// Children implements [fieldtype.Type].
func (f Field) Children() (names []fieldtype.Name) {
	for _, name := range slices.Sorted(maps.Keys(f.Props.Properties)) {
		names = append(names, fieldtype.Name{JSON: name})
	}
	return names
}

// IsMap implements [fieldtype.Type].
func (f Field) IsMap() bool {
	return f.Props.AdditionalProperties != nil && f.Props.AdditionalProperties.Schema != nil
}

// IsOmitted implements [fieldtype.Type].
func (f Field) IsOmitted(any) bool { return false }
