package kinds

import (
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// A SchemaField is the type of a field in a published schema.
type SchemaField struct {
	Props *apiextensionsv1.JSONSchemaProps
}

// JSON implements [validation.FieldType].
func (f SchemaField) JSON() validation.JSONType {
	p := f.Props
	switch {
	case p.XIntOrString, p.XEmbeddedResource, p.XPreserveUnknownFields != nil && *p.XPreserveUnknownFields, p.Ref != nil:
		return validation.JSONAny
	case p.Type == "object" && len(p.Properties) == 0 && (p.AdditionalProperties == nil || p.AdditionalProperties.Schema == nil):
		return validation.JSONAny
	}
	return map[string]validation.JSONType{
		"string": validation.JSONString, "integer": validation.JSONInteger, "number": validation.JSONNumber, "boolean": validation.JSONBoolean, "array": validation.JSONList, "object": validation.JSONObject,
	}[p.Type]
}

// Child implements [validation.FieldType].
func (f SchemaField) Child(key string) validation.FieldType {
	if props, ok := f.Props.Properties[key]; ok {
		return SchemaField{&props}
	}
	if f.IsMap() {
		return SchemaField{f.Props.AdditionalProperties.Schema}
	}
	return nil
}

// Children implements [validation.FieldType].
func (f SchemaField) Children() (names []validation.FieldName) {
	for _, name := range slices.Sorted(maps.Keys(f.Props.Properties)) {
		names = append(names, validation.FieldName{JSON: name})
	}
	return names
}

// IsMap implements [validation.FieldType].
func (f SchemaField) IsMap() bool {
	return f.Props.AdditionalProperties != nil && f.Props.AdditionalProperties.Schema != nil
}

// IsOmitted implements [validation.FieldType].
func (f SchemaField) IsOmitted(any) bool { return false }
