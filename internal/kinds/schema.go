package kinds

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
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

const (
	schemaPollInterval = 200 * time.Millisecond
	schemaTimeout      = 10 * time.Second
)

// ConditionsHint is what error messages say about storing conditions in a different field.
const ConditionsHint = "to use another field, pass the option WithConditionsIn to For"

// checkSchema returns an error if the kind's schema lacks fields for the progress store, the baseline or the conditions. The API server
// would drop these fields, so the operator would write them again and again. storages are the stores and the baseline on the objects. The
// published schema is only read if there are fields to check, and reading it needs no extra permissions. If that fails, checkSchema logs
// the error and returns nil.
func checkSchema(ctx context.Context, client *discovery.DiscoveryClient, kind *engine.Kind, storages []any) error {
	var users []any
	for _, storage := range storages {
		if user, ok := storage.(progress.FieldUser); ok && len(user.Fields()) > 0 {
			users = append(users, user)
		}
	}
	fields := conditionFields(kind)
	if len(users)+len(fields) == 0 {
		return nil
	}
	published, err := AwaitSchema(ctx, client, kind.GVK)
	if err != nil {
		log.FromContext(ctx).Info("Failed to check whether the schema of the kind has the fields for progress and conditions",
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
			return fmt.Errorf("%s: the schema of the kind has no field %s, so the API server would drop the conditions: add the field (%s)", kind.GVK.Kind, strings.Join(path[:n+1], "."), ConditionsHint)
		}
	}
	return nil
}

// AwaitSchema returns a kind's published schema. It polls until schemaTimeout, because the API server publishes a new kind's schema shortly
// after it starts to serve it.
func AwaitSchema(ctx context.Context, client discovery.DiscoveryInterface, gvk schema.GroupVersionKind) (published *apiextensionsv1.JSONSchemaProps, err error) {
	err = wait.PollUntilContextTimeout(ctx, schemaPollInterval, schemaTimeout, true, func(context.Context) (found bool, err error) {
		published, err = publishedSchema(client, gvk)
		if _, unpublished := errors.AsType[*openapi3.GroupVersionNotFoundError](err); unpublished {
			err = nil
		}
		return published != nil, err
	})
	return published, err
}

// conditionFields returns the paths of the fields that a kind's conditions need. It finds them by setting the conditions on an empty
// object.
func conditionFields(kind *engine.Kind) (paths [][]string) {
	types := slices.Clone(kind.DeclaredConditions)
	if kind.Root != nil {
		types = append(types, kind.Root.Type)
	}
	for _, handlers := range []*invoke.Registry[*invoke.Handler]{&kind.Handlers, &kind.ReconcileHandlers} {
		for _, id := range handlers.IDs() {
			if handler, _ := handlers.Get(id); handler.ConditionType != "" {
				types = append(types, handler.ConditionType)
			}
		}
	}
	obj := kind.New()
	set, err := conditions.For(obj, kind.ConditionOptions...)
	if len(types) == 0 || err != nil { // checkConditions reports the error
		return nil
	}
	before, err := patch.JSONTypedContent(obj)
	if err != nil {
		return nil
	}
	for _, conditionType := range types {
		set.True(conditionType, "Probing", "checks the schema")
	}
	after, err := patch.JSONTypedContent(obj)
	if err != nil {
		return nil
	}
	added := patch.Diff(before, after)
	delete(added, "metadata") // every kind has this field
	return leafPaths(map[string]any(added), nil)
}

// leafPaths returns the paths of all leaves in a JSON value, with "*" for list items.
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

// publishedSchema returns a kind's schema from the API server's OpenAPI document, or nil if it isn't in there.
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

// resolveReferences replaces references in the top-level properties with the referenced schemas. Only built-in kinds need this.
func resolveReferences(kind apiextensionsv1.JSONSchemaProps, all map[string]publishedKind) *apiextensionsv1.JSONSchemaProps {
	for name, property := range kind.Properties {
		ref := property.Ref
		for _, part := range property.AllOf {
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
