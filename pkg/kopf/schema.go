package kopf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/registry"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

const (
	schemaPollInterval = 200 * time.Millisecond
	schemaTimeout      = 10 * time.Second
)

// checkSchema finds what would be lost or written again and again, because the schema of the kind does not have the fields
// for it (B-33): what is put into stores, and conditions that are declared or report of handlers. It asks for the published schema,
// which needs no rights; and only if there is something to check.
func (o *Operator) checkSchema(ctx context.Context, client *discovery.DiscoveryClient, kind *engine.Kind) error {
	var users []any
	for _, place := range []any{o.settings.Store, o.settings.Baseline} {
		if user, ok := place.(progress.FieldUser); ok && len(user.Fields()) > 0 {
			users = append(users, user)
		}
	}
	fields := conditionFields(kind)
	if len(users)+len(fields) == 0 {
		return nil
	}
	published, err := awaitSchema(ctx, client, kind.GVK)
	if err != nil {
		log.FromContext(ctx).Info("Warning: cannot check whether the kind has the fields in which progress and conditions are to be kept",
			"kind", kind.GVK.Kind, "error", err.Error())
		return nil
	}
	for _, user := range users {
		if err := progress.CheckSchema(published, user); err != nil {
			return fmt.Errorf("%s: %w", kind.GVK.Kind, err)
		}
	}
	for _, path := range fields {
		if n := progress.PreservedDepth(published, path...); n < len(path) {
			return fmt.Errorf("%s: it is to have conditions, and the schema of the kind has no field %s: the API server would drop it: "+
				"add it, or say where they are (%s)", kind.GVK.Kind, strings.Join(path[:n+1], "."), conditionsHint)
		}
	}
	return nil
}

// awaitSchema returns the published schema of a kind. The schema of a new kind, or of a whole new group, is published a moment after it is
// served.
func awaitSchema(ctx context.Context, client discovery.DiscoveryInterface, gvk schema.GroupVersionKind) (published *apiextensionsv1.JSONSchemaProps, err error) {
	err = wait.PollUntilContextTimeout(ctx, schemaPollInterval, schemaTimeout, true, func(context.Context) (found bool, err error) {
		published, err = publishedSchema(client, gvk)
		if _, early := errors.AsType[*openapi3.GroupVersionNotFoundError](err); early {
			err = nil
		}
		return published != nil, err
	})
	return published, err
}

// conditionFields are the paths of the fields that the conditions of a kind take, if it is to have some: those that appear in an empty
// object when they are set.
func conditionFields(kind *engine.Kind) (paths [][]string) {
	types := slices.Clone(kind.Declared)
	if kind.Root != nil {
		types = append(types, kind.Root.Type)
	}
	for _, handlers := range []*registry.Registry[engine.Handler]{&kind.Handlers, &kind.Levels} {
		for _, id := range handlers.IDs() {
			if handler, _ := handlers.Get(id); handler.Reports != "" {
				types = append(types, handler.Reports)
			}
		}
	}
	obj := kind.New()
	set, err := conditions.For(obj, kind.ConditionOptions...)
	if len(types) == 0 || err != nil { // which is a mistake that is told already
		return nil
	}
	before, err := patch.NormalizedContent(obj)
	if err != nil {
		return nil
	}
	for _, one := range types {
		set.True(one, "Probing", "whether it is kept")
	}
	after, err := patch.NormalizedContent(obj)
	if err != nil {
		return nil
	}
	added := patch.Diff(before, after)
	delete(added, "metadata") // which every kind has
	return leafPaths(map[string]any(added), nil)
}

// leaves are the paths of all values, with "*" for each item of a list.
func leafPaths(value any, path []string) (paths [][]string) {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			paths = append(paths, leafPaths(value[name], append(slices.Clone(path), name))...)
		}
	case []any:
		for _, item := range value {
			paths = append(paths, leafPaths(item, append(slices.Clone(path), "*"))...)
		}
	default:
		paths = append(paths, path)
	}
	return paths
}

// publishedSchema is the schema of a kind as the API server publishes it; nil if it has none.
func publishedSchema(client discovery.DiscoveryInterface, gvk schema.GroupVersionKind) (*apiextensionsv1.JSONSchemaProps, error) {
	doc, err := openapi3.NewRoot(client.OpenAPIV3()).GVSpecAsMap(gvk.GroupVersion())
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
			return resolveReferences(kind.JSONSchemaProps, spec.Components.Schemas), nil
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
func resolveReferences(kind apiextensionsv1.JSONSchemaProps, all map[string]publishedKind) *apiextensionsv1.JSONSchemaProps {
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
