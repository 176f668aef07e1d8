package e2e

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var (
	// Widgets have a Go type and the status subresource; their status keeps unknown fields.
	widgetGVK = v1.GroupVersion.WithKind("Widget")
	// Gadgets have no Go type and no status subresource; their schema keeps unknown fields.
	gadgetGVK = v1.GroupVersion.WithKind("Gadget")
	// Stricts have the status subresource, and their schema drops unknown fields.
	strictGVK = v1.GroupVersion.WithKind("Strict")
)

func crds() []*apiextensionsv1.CustomResourceDefinition {
	return []*apiextensionsv1.CustomResourceDefinition{
		crd(widgetGVK, true, true),
		crd(gadgetGVK, false, true),
		crd(strictGVK, true, false),
	}
}

func crd(gvk schema.GroupVersionKind, hasStatus, keepUnknown bool) *apiextensionsv1.CustomResourceDefinition {
	plural := strings.ToLower(gvk.Kind) + "s"
	out := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + gvk.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: gvk.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind: gvk.Kind, ListKind: gvk.Kind + "List", Plural: plural, Singular: strings.ToLower(gvk.Kind),
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: gvk.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec":   fieldSchema(keepUnknown),
						"status": fieldSchema(keepUnknown),
					},
				}},
			}},
		},
	}
	if hasStatus {
		out.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{
			Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
		}
	}
	return out
}

// fieldSchema returns the schema of the spec or status. Sizes above 1000 are invalid.
func fieldSchema(keepUnknown bool) apiextensionsv1.JSONSchemaProps {
	texts := &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}
	out := apiextensionsv1.JSONSchemaProps{
		Type: "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"size":  {Type: "integer", Maximum: new(float64(1000))},
			"color": {Type: "string"},
			"phase": {Type: "string"},
			"tags":  {Type: "array", Items: texts},
			"log":   {Type: "array", Items: texts},
		},
	}
	if keepUnknown {
		out.XPreserveUnknownFields = new(true)
	}
	return out
}
