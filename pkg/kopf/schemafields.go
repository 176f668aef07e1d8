package kopf

import (
	"context"
	"maps"
	"reflect"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/kopf-runtime/kopf-runtime/internal/fieldtype"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// warnAboutFields logs a message for each handler field that the schema of the kind lacks, and for each compared value that a field cannot
// have. It is for kinds without a Go type. It returns no errors, because the schema can change while the operator runs. It waits up to
// schemaTimeout for the schema, so the caller must run it in the background.
func (o *Operator) warnAboutFields(ctx context.Context, client discovery.DiscoveryInterface, gvk schema.GroupVersionKind, declarations []*declaration) {
	logger := o.mgr.GetLogger().WithValues("kind", gvk.Kind)
	published, err := awaitSchema(ctx, client, gvk)
	if err != nil {
		logger.V(1).Info("Failed to read the schema of the kind; the fields of handlers are not checked", "error", err.Error())
		return
	}
	for _, d := range declarations {
		for _, err := range d.checkField(schemaField{published}, "the schema of the kind") {
			logger.Info("The field of a handler does not fit the schema of the kind",
				"handler", d.displayName(), "field", validation.JoinFieldPath(d.Criteria.Field.Path), "problem", err.Error())
		}
	}
}

// handlersWithUncheckedFields returns the handlers with a field, except those of OnCondition, if the kind has no Go type. For a kind with a
// Go type, it returns nil, because the check of the declaration covers these fields.
func (r *Resource[T]) handlersWithUncheckedFields() []*declaration {
	if fieldtype.Go(reflect.TypeOf(r.obj)) != nil {
		return nil
	}
	return slices.DeleteFunc(r.declarations(), func(d *declaration) bool { return d.Criteria.Field == nil || d.isForCondition() })
}

// A schemaField is the type of a field in a published schema.
type schemaField struct {
	props *apiextensionsv1.JSONSchemaProps
}

func (f schemaField) JSON() fieldtype.JSON {
	p := f.props
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

func (f schemaField) Child(key string) fieldtype.Type {
	if props, ok := f.props.Properties[key]; ok {
		return schemaField{&props}
	}
	if f.IsMap() {
		return schemaField{f.props.AdditionalProperties.Schema}
	}
	return nil
}

func (f schemaField) Children() (names []fieldtype.Name) {
	for _, name := range slices.Sorted(maps.Keys(f.props.Properties)) {
		names = append(names, fieldtype.Name{JSON: name})
	}
	return names
}

func (f schemaField) IsMap() bool {
	return f.props.AdditionalProperties != nil && f.props.AdditionalProperties.Schema != nil
}

func (f schemaField) IsOmitted(any) bool { return false }
