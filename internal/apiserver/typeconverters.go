package apiserver

import (
	"encoding/json"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// builtinTypes holds the list types (atomic, set or map) of built-in kinds for server-side apply. The first call takes a second to load
// them.
var builtinTypes = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(builtins()) })

// metaSchema is the part of the metadata's schema that server-side apply needs: the list types.
const metaSchema = `{"type": "object", "properties": {
	"name": {"type": "string"}, "generateName": {"type": "string"}, "namespace": {"type": "string"},
	"uid": {"type": "string"}, "resourceVersion": {"type": "string"}, "selfLink": {"type": "string"},
	"generation": {"type": "integer"}, "deletionGracePeriodSeconds": {"type": "integer"},
	"creationTimestamp": {"type": "string"}, "deletionTimestamp": {"type": "string"},
	"labels": {"type": "object", "additionalProperties": {"type": "string"}},
	"annotations": {"type": "object", "additionalProperties": {"type": "string"}},
	"finalizers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
	"ownerReferences": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"], "items": {
		"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
			"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "name": {"type": "string"}, "uid": {"type": "string"},
			"controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"}}}},
	"managedFields": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {
		"type": "object", "x-kubernetes-map-type": "atomic", "x-kubernetes-preserve-unknown-fields": true}}}}`

// newTypeConverter returns the list types of a custom kind for server-side apply, from metaSchema and the CRD's schema.
func newTypeConverter(r Resource) (managedfields.TypeConverter, error) {
	schema := r.schema
	if schema == nil {
		schema = &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	}
	text, err := json.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("apiserver: encode the schema of %s: %w", r.Kind, err)
	}
	model := &spec.Schema{}
	if err := json.Unmarshal(text, model); err != nil {
		return nil, fmt.Errorf("apiserver: decode the schema of %s: %w", r.Kind, err)
	}
	meta := spec.Schema{}
	if err := json.Unmarshal([]byte(metaSchema), &meta); err != nil {
		return nil, fmt.Errorf("apiserver: decode the schema of the metadata: %w", err)
	}
	if model.Properties == nil {
		model.Properties = map[string]spec.Schema{}
	}
	model.Properties["apiVersion"], model.Properties["kind"] = *spec.StringProperty(), *spec.StringProperty()
	model.Properties["metadata"] = meta
	model.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{
		"group": r.GroupVersion.Group, "version": r.GroupVersion.Version, "kind": r.Kind,
	}})
	return managedfields.NewTypeConverter(map[string]*spec.Schema{r.gvk().String(): model}, false)
}
