package ring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

// ringKind is the kind that configures the sharder.
var ringKind = schema.GroupVersionKind{Group: "sharding.timebertt.dev", Version: "v1alpha1", Kind: "ControllerRing"}

const readTimeout = 10 * time.Second

// CheckServed returns an error if the ControllerRing can't be read, or lacks one of the operator's sharded kinds. If the operator isn't
// allowed to read it, the error is only logged. Rings with a fixed number of shards need no check.
func (p *Part) CheckServed(ctx context.Context, kinds []engine.Kind) error {
	if p == nil || p.ring.Total() > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	ring := &unstructured.Unstructured{}
	ring.SetGroupVersionKind(ringKind)
	err := p.manager.GetAPIReader().Get(ctx, client.ObjectKey{Name: p.ring.Name()}, ring)
	log := p.manager.GetLogger().WithValues("ring", p.ring.Name())
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Errorf("the operator cannot start:\nWithSharding: the API server does not serve ControllerRings of %s: install kubernetes-controller-sharding", ringKind.GroupVersion())
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the operator cannot start:\nWithSharding: the ControllerRing %q does not exist: create it, with the resources of the operator in spec.resources", p.ring.Name())
	case apierrors.IsForbidden(err):
		log.Info("Reading the ControllerRing is forbidden; the operator does not check that the ring contains its kinds", "error", err.Error())
		return nil
	case err != nil:
		return fmt.Errorf("the operator cannot start:\nWithSharding: reading the ControllerRing %q: %w", p.ring.Name(), rbac.Explain(err))
	}
	listed := ringResources(ring)
	var errs []error
	for _, kind := range kinds {
		mapping, err := p.manager.GetRESTMapper().RESTMapping(kind.GVK.GroupKind(), kind.GVK.Version)
		if err != nil || !p.Shards(&kind) {
			continue // if the kind is not served, the operator fails or waits later
		}
		if gr := mapping.Resource.GroupResource(); !slices.Contains(listed, gr) {
			errs = append(errs, fmt.Errorf("WithSharding: the ControllerRing %q does not contain %s, so that no replica would handle its objects: "+
				"add {group: %q, resource: %q} to spec.resources (it has %q)", p.ring.Name(), gr, gr.Group, gr.Resource, joinResources(listed)))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the operator cannot start:\n%w", err)
	}
	return nil
}

// ringResources returns a ring's main resources, without their controlledResources, which the sharder moves without draining them.
func ringResources(ring *unstructured.Unstructured) (all []schema.GroupResource) {
	resources, _, _ := unstructured.NestedSlice(ring.Object, "spec", "resources")
	for _, one := range resources {
		fields, _ := one.(map[string]any)
		group, _ := fields["group"].(string)
		resource, _ := fields["resource"].(string)
		all = append(all, schema.GroupResource{Group: group, Resource: resource})
	}
	return all
}

func joinResources(all []schema.GroupResource) string {
	var names []string
	for _, gr := range all {
		names = append(names, gr.String())
	}
	return strings.Join(names, ", ")
}
