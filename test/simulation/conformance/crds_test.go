package conformance

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const group = "conformance.example.com"

func crds() []*apiextensionsv1.CustomResourceDefinition {
	return []*apiextensionsv1.CustomResourceDefinition{
		crd("Widget", apiextensionsv1.NamespaceScoped, true),
		crd("Gadget", apiextensionsv1.NamespaceScoped, false),
		crd("Cog", apiextensionsv1.ClusterScoped, true),
		strict(),
	}
}

// crd returns a CRD whose schema preserves all fields.
func crd(kind string, scope apiextensionsv1.ResourceScope, hasStatus bool) *apiextensionsv1.CustomResourceDefinition {
	singular := strings.ToLower(kind)
	version := apiextensionsv1.CustomResourceDefinitionVersion{
		Name: "v1", Served: true, Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", XPreserveUnknownFields: new(true),
		}},
	}
	if hasStatus {
		version.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: singular + "s." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: scope,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: singular + "s", Singular: singular},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version},
		},
	}
}

// strict returns a CRD whose schema contains an example of each feature.
func strict() *apiextensionsv1.CustomResourceDefinition {
	out := crd("Strict", apiextensionsv1.NamespaceScoped, true)
	out.Spec.Names.Plural, out.Name = "stricts", "stricts."+group
	version := &out.Spec.Versions[0]
	version.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{}}
	if err := yaml.UnmarshalStrict([]byte(strictSchema), version.Schema.OpenAPIV3Schema); err != nil {
		panic(err)
	}
	return out
}

const strictSchema = `
type: object
required: [spec]
properties:
  spec:
    type: object
    required: [size]
    properties:
      size: {type: integer, minimum: 1, maximum: 10}
      color: {type: string, enum: [red, green], default: red}
      name: {type: string, minLength: 2, maxLength: 4, pattern: "^[a-z]*$"}
      port: {x-kubernetes-int-or-string: true}
      perhaps: {type: string, nullable: true}
      always: {type: string, default: here}
      both: {type: boolean, default: true, nullable: true}
      free: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {known: {type: object, properties: {a: {type: string}}}}}
      texts: {type: object, additionalProperties: {type: string}}
      ratio: {type: number}
      tags: {type: array, x-kubernetes-list-type: set, maxItems: 3, items: {type: string}}
      parts:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name]
        items:
          type: object
          required: [name]
          properties: {name: {type: string}, count: {type: integer, default: 1}, note: {type: string}}
      deep: {type: object, default: {}, properties: {level: {type: integer, default: 7}}}
      date: {type: string, format: date-time}
  status:
    type: object
    properties:
      phase: {type: string, enum: [New, Old]}
      count: {type: integer}
      conditions:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [type]
        items: {type: object, required: [type], properties: {type: {type: string}, status: {type: string}}}
`
