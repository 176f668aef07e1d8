package kopf

import (
	"context"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/decoding"
)

// NewCache creates a manager's cache. Set it in the manager's options:
//
//	mgr, err := ctrl.NewManager(config, ctrl.Options{NewCache: kopf.NewCache})
//
// It is controller-runtime's cache, but leaves out stored objects that don't decode into their Go type, for example because of the value
// 1.5 for an int32. All other objects are cached and handled. With a different cache, one such object stops the operator, because no object
// of the kind is delivered. The caches that an operator creates itself (see [WithKindCaches]) always leave out such objects.
//
// The operator logs each such object, posts a Warning with the reason Undecodable about it, and counts it in the metric
// kopf_undecodable_objects. [Operator.Readyz] and [Operator.Explain] name it. Reading it from the cache fails with an error other than
// NotFound, and lists don't contain it. If the operator handled the object before, it goes out of scope. Once it is repaired, the operator
// handles it again.
//
// The cache decodes everything only once, except for kinds with such objects, and in watches of Go types with their own UnmarshalJSON.
func NewCache(config *rest.Config, options cache.Options) (cache.Cache, error) {
	return decoding.New(config, options)
}

// CheckObjects lists all objects of the kinds and related kinds with Go types, and returns an error for each object that doesn't decode.
// Call it before you deploy a new version of an operator, for example with a flag of its binary. It reads from the API server, calls no
// handlers, and needs permission to list the kinds. The operator and its manager don't have to run.
func (o *Operator) CheckObjects(ctx context.Context) error {
	all, err := o.engineKinds()
	if err != nil {
		return err
	}
	watched := make([]kinds.Kind, len(all))
	for i, kind := range all {
		watched[i] = watchedKind(kind, o.resources[i])
	}
	return o.kinds.CheckObjects(ctx, watched)
}
