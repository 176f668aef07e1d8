package bench

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/kopf-runtime/kopf-runtime/test/bench/api/v1"
)

// kind describes a custom resource of the benchmark.
type kind struct {
	name, plural string
	hasStatus    bool             // the CRD has the status subresource
	empty        func() v1.Object // returns an empty object
}

var (
	widgets = kind{
		name: "Widget", plural: "widgets", hasStatus: true,
		empty: func() v1.Object { return &v1.Widget{} },
	}
	gadgets = kind{
		name: "Gadget", plural: "gadgets",
		empty: func() v1.Object { return &v1.Gadget{} },
	}
)

// payloadChunk is the size of one of the texts that -payload adds, in bytes.
const payloadChunk = 256

// object returns a new object with a typical spec. It does not create the object on the server.
func (k kind) object(namespace, name string) v1.Object {
	obj := k.empty()
	obj.SetNamespace(namespace)
	obj.SetName(name)
	obj.SetLabels(map[string]string{"app.kubernetes.io/name": "shop", "app.kubernetes.io/part-of": "market"})
	spec, _ := obj.Content()
	*spec = v1.Spec{
		Size: 1, Image: "registry.example.com/team/app:v1.2.3",
		Args:     []string{"--verbose", "--listen=:8080", "--workers=4"},
		Settings: map[string]string{"region": "north", "tier": "gold", "backup": "daily", "zone": "a"},
	}
	for i := range *payloadFlag / payloadChunk {
		spec.Settings[fmt.Sprintf("payload-%d", i)] = strings.Repeat("x", payloadChunk)
	}
	return obj
}

// objects returns n new objects named NAME-0, NAME-1 and so on.
func (k kind) objects(namespace, name string, n int) []v1.Object {
	objects := make([]v1.Object, n)
	for i := range objects {
		objects[i] = k.object(namespace, fmt.Sprintf("%s-%d", name, i))
	}
	return objects
}

func crds() []*apiextensionsv1.CustomResourceDefinition {
	return []*apiextensionsv1.CustomResourceDefinition{crd(widgets), crd(gadgets)}
}

func crd(k kind) *apiextensionsv1.CustomResourceDefinition {
	text, number := apiextensionsv1.JSONSchemaProps{Type: "string"}, apiextensionsv1.JSONSchemaProps{Type: "integer"}
	out := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: k.plural + "." + v1.GroupVersion.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: v1.GroupVersion.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: k.name, ListKind: k.name + "List", Plural: k.plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: v1.GroupVersion.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
							"size": number, "image": text,
							"args":     {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &text}},
							"settings": {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &text}},
						}},
						"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
							"phase": text, "size": number, "address": text, "owner": text,
						}},
					},
				}},
			}},
		},
	}
	if k.hasStatus {
		out.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{
			Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
		}
	}
	return out
}
