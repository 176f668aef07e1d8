package kopf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

const (
	schemaPause    = 200 * time.Millisecond
	schemaPatience = 10 * time.Second
)

// checkSchema finds stores that would lose all that is put into them, because the schema of the kind does
// not have their fields (B-33). It asks for the published schema, which needs no rights; and only if there
// is something to check.
func (o *Operator) checkSchema(ctx context.Context, client *discovery.DiscoveryClient, gvk schema.GroupVersionKind) error {
	var users []any
	for _, place := range []any{o.settings.Store, o.settings.Baseline} {
		if user, ok := place.(progress.FieldUser); ok && len(user.Fields()) > 0 {
			users = append(users, user)
		}
	}
	if len(users) == 0 {
		return nil
	}
	var published *apiextensionsv1.JSONSchemaProps
	// The schema of a new kind is published a moment after the kind is served.
	err := wait.PollUntilContextTimeout(ctx, schemaPause, schemaPatience, true, func(context.Context) (found bool, err error) {
		published, err = publishedSchema(client, gvk)
		return published != nil, err
	})
	if err != nil {
		log.FromContext(ctx).Info("Warning: cannot check whether the kind has the fields in which progress is to be kept",
			"kind", gvk.Kind, "error", err.Error())
		return nil
	}
	for _, user := range users {
		if err := progress.CheckSchema(published, user); err != nil {
			return fmt.Errorf("%s: %w", gvk.Kind, err)
		}
	}
	return nil
}

// publishedSchema is the schema of a kind as the API server publishes it; nil if it has none.
func publishedSchema(client discovery.DiscoveryInterface, gvk schema.GroupVersionKind) (*apiextensionsv1.JSONSchemaProps, error) {
	doc, err := openapi3.NewRoot(client.OpenAPIV3()).GVSpecAsMap(gvk.GroupVersion())
	if _, ok := errors.AsType[*openapi3.GroupVersionNotFoundError](err); ok {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	var spec struct {
		Components struct {
			Schemas map[string]publishedKind `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		return nil, err
	}
	for _, kind := range spec.Components.Schemas {
		if slices.Contains(kind.Kinds, groupVersionKind{gvk.Group, gvk.Version, gvk.Kind}) {
			return resolved(kind.JSONSchemaProps, spec.Components.Schemas), nil
		}
	}
	return nil, nil
}

type publishedKind struct {
	apiextensionsv1.JSONSchemaProps `json:",inline"`

	Kinds []groupVersionKind `json:"x-kubernetes-group-version-kind"`
}

type groupVersionKind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

// resolved puts the stanzas of the kind in the place of references to them: those of builtin kinds are
// published apart.
func resolved(kind apiextensionsv1.JSONSchemaProps, all map[string]publishedKind) *apiextensionsv1.JSONSchemaProps {
	for name, stanza := range kind.Properties {
		ref := stanza.Ref
		for _, part := range stanza.AllOf {
			if ref == nil {
				ref = part.Ref
			}
		}
		if ref != nil {
			kind.Properties[name] = all[strings.TrimPrefix(*ref, "#/components/schemas/")].JSONSchemaProps
		}
	}
	return &kind
}
