package apiserver

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

// A shape is the schema that a CRD gives to a custom kind.
type shape struct {
	schema        *structural.Structural
	whole, status *validate.SchemaValidator
}

// shapeOf is nil for kinds without a schema.
func (s *Server) shapeOf(r Resource) (*shape, error) {
	if r.schema == nil {
		return nil, nil
	}
	if known := s.shapes[r.gvk()]; known != nil {
		return known, nil
	}
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(r.schema, internal, nil); err != nil {
		return nil, fmt.Errorf("apiserver: the schema of %s: %w", r.Kind, err)
	}
	schema, err := structural.NewStructural(internal)
	if err != nil {
		return nil, fmt.Errorf("apiserver: the schema of %s: %w", r.Kind, err)
	}
	out := &shape{schema: schema, whole: validatorOf(schema)}
	if status, ok := schema.Properties["status"]; ok {
		out.status = validatorOf(&status)
	}
	s.shapes[r.gvk()] = out
	return out, nil
}

func validatorOf(schema *structural.Structural) *validate.SchemaValidator {
	model := schema.ToKubeOpenAPI()
	allowEither(model)
	return validate.NewSchemaValidator(model, nil, "", strfmt.Default)
}

// allowEither gives their types to the fields that may be numbers or texts.
func allowEither(model *spec.Schema) {
	if model == nil {
		return
	}
	if either, _ := model.Extensions["x-kubernetes-int-or-string"].(bool); either {
		model.Type = spec.StringOrArray{"integer", "string"}
	}
	for name, property := range model.Properties {
		allowEither(&property)
		model.Properties[name] = property
	}
	if model.Items != nil {
		allowEither(model.Items.Schema)
	}
	if model.AdditionalProperties != nil {
		allowEither(model.AdditionalProperties.Schema)
	}
}

// fit prunes an object, and fills in the defaults. The object is changed.
func (s *shape) fit(obj object) {
	pruning.Prune(obj, s.schema, true)
	dropNulls(obj, s.schema)
	fill(obj, s.schema)
}

// valid checks an object, or its status alone.
func (s *shape) valid(obj object, subresource string) field.ErrorList {
	status, has := obj["status"]
	switch {
	case subresource == "":
		return append(faults(nil, s.whole.Validate(obj)), listtype.ValidateListSetsAndMaps(nil, s.schema, obj)...)
	case has && s.status != nil:
		return append(faults(field.NewPath("status"), s.status.Validate(status)), listtype.ValidateListSetsAndMaps(nil, s.schema, obj)...)
	default:
		return nil
	}
}

// under is the schema of a field.
func under(schema *structural.Structural, name string) *structural.Structural {
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

func itemsOf(schema *structural.Structural) *structural.Structural {
	if schema == nil {
		return nil
	}
	return schema.Items
}

// dropNulls removes the nulls that may not be, unless a default comes in their place.
func dropNulls(value any, schema *structural.Structural) {
	switch v := value.(type) {
	case object:
		for name, inner := range v {
			of := under(schema, name)
			if inner == nil && of != nil && !of.Nullable && of.Default.Object == nil {
				delete(v, name)
				continue
			}
			dropNulls(inner, of)
		}
	case []any:
		for _, inner := range v {
			dropNulls(inner, itemsOf(schema))
		}
	}
}

// fill puts the defaults where there is nothing, or a null that may not be.
func fill(value any, schema *structural.Structural) {
	if schema == nil {
		return
	}
	switch v := value.(type) {
	case object:
		for name, property := range schema.Properties {
			inner, found := v[name]
			if property.Default.Object != nil && (!found || inner == nil && !property.Nullable) {
				v[name] = copied(property.Default.Object)
			}
		}
		for name, inner := range v {
			fill(inner, under(schema, name))
		}
	case []any:
		for i, inner := range v {
			if of := schema.Items; inner == nil && of != nil && !of.Nullable && of.Default.Object != nil {
				v[i] = copied(of.Default.Object)
			}
			fill(v[i], schema.Items)
		}
	}
}

// copied is a default of its own.
func copied(value any) any {
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
