package crdschema

import (
	"encoding/json"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// A Schema is the schema of a custom kind.
type Schema struct {
	schema        *structural.Structural
	whole, status *validate.SchemaValidator
}

// New converts the schema of one CustomResourceDefinition version.
func New(props *apiextensionsv1.JSONSchemaProps) (*Schema, error) {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, internal, nil); err != nil {
		return nil, fmt.Errorf("converting the schema: %w", err)
	}
	schema, err := structural.NewStructural(internal)
	if err != nil {
		return nil, fmt.Errorf("making the schema structural: %w", err)
	}
	out := &Schema{schema: schema, whole: newValidator(schema)}
	if status, ok := schema.Properties["status"]; ok {
		out.status = newValidator(&status)
	}
	return out, nil
}

func newValidator(schema *structural.Structural) *validate.SchemaValidator {
	model := schema.ToKubeOpenAPI()
	setIntOrStringTypes(model)
	return validate.NewSchemaValidator(model, nil, "", strfmt.Default)
}

// setIntOrStringTypes sets the types of fields that accept integers and strings.
func setIntOrStringTypes(model *spec.Schema) {
	if model == nil {
		return
	}
	if either, _ := model.Extensions["x-kubernetes-int-or-string"].(bool); either {
		model.Type = spec.StringOrArray{"integer", "string"}
	}
	for name, property := range model.Properties {
		setIntOrStringTypes(&property)
		model.Properties[name] = property
	}
	if model.Items != nil {
		setIntOrStringTypes(model.Items.Schema)
	}
	if model.AdditionalProperties != nil {
		setIntOrStringTypes(model.AdditionalProperties.Schema)
	}
}

// PruneAndDefault removes unknown fields and forbidden nulls, and sets defaults. It modifies the object.
func (s *Schema) PruneAndDefault(obj map[string]any) {
	pruning.Prune(obj, s.schema, true)
	dropNulls(obj, s.schema)
	setDefaults(obj, s.schema)
}

// PruneAndDefaultApplied is PruneAndDefault for the result of a server-side apply. It keeps forbidden nulls, which the validation then
// rejects.
func (s *Schema) PruneAndDefaultApplied(obj map[string]any) {
	pruning.Prune(obj, s.schema, true)
	setDefaults(obj, s.schema)
}

// Validate validates an object. A write to the status subresource only validates the status, and lists of type set and map for duplicates.
func (s *Schema) Validate(obj map[string]any, subresource string) field.ErrorList {
	status, has := obj["status"]
	switch {
	case subresource == "":
		return append(validationErrors(nil, s.whole.Validate(obj)), listtype.ValidateListSetsAndMaps(nil, s.schema, obj)...)
	case has && s.status != nil:
		return append(validationErrors(field.NewPath("status"), s.status.Validate(status)), listtype.ValidateListSetsAndMaps(nil, s.schema, obj)...)
	default:
		return nil
	}
}

// fieldSchema returns a field's schema, or nil if it has none.
func fieldSchema(schema *structural.Structural, name string) *structural.Structural {
	if schema == nil {
		return nil
	}
	if property, ok := schema.Properties[name]; ok {
		return &property
	}
	if schema.AdditionalProperties != nil {
		return schema.AdditionalProperties.Structural
	}
	return nil
}

func itemSchema(schema *structural.Structural) *structural.Structural {
	if schema == nil {
		return nil
	}
	return schema.Items
}

// dropNulls removes nulls from fields that aren't nullable, unless the fields have a default.
func dropNulls(value any, schema *structural.Structural) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			of := fieldSchema(schema, name)
			if inner == nil && of != nil && !of.Nullable && of.Default.Object == nil {
				delete(v, name)
				continue
			}
			dropNulls(inner, of)
		}
	case []any:
		for _, inner := range v {
			dropNulls(inner, itemSchema(schema))
		}
	}
}

// setDefaults sets the defaults of fields that are missing, or that are null but not nullable.
func setDefaults(value any, schema *structural.Structural) {
	if schema == nil {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for name, property := range schema.Properties {
			inner, found := v[name]
			if property.Default.Object != nil && (!found || inner == nil && !property.Nullable) {
				v[name] = copyDefault(property.Default.Object)
			}
		}
		for name, inner := range v {
			setDefaults(inner, fieldSchema(schema, name))
		}
	case []any:
		for i, inner := range v {
			if of := schema.Items; inner == nil && of != nil && !of.Nullable && of.Default.Object != nil {
				v[i] = copyDefault(of.Default.Object)
			}
			setDefaults(v[i], schema.Items)
		}
	}
}

// copyDefault copies a default value. Integers in the copy are int64, as in decoded objects.
func copyDefault(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		return value
	}
	var out any
	if err := utiljson.Unmarshal(text, &out); err != nil {
		return value
	}
	return out
}
