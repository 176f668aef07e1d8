package kinds

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/watching"
)

// A Kind is the declaration of a kind whose objects the operator watches, without its Go type.
type Kind struct {
	engine.Kind
	Controller controller.Options
	Predicates []predicate.Predicate
	Related    []Related
	Events     []*EventSelection
	Triggers   []source.Source
	// WhenServed is true if the operator starts even though the API server doesn't serve the kind.
	WhenServed bool
	// Client reads the kind and its related kinds from their own cache. It is nil if the kind shares a cache with other kinds.
	Client *watching.Client
	// CheckFields reports handler fields that don't fit the kind's published schema. It is nil if there is nothing to check.
	CheckFields fieldCheck
}

type fieldCheck = func(published *apiextensionsv1.JSONSchemaProps, report func(handler, field string, problem error))

// storesEvents reports whether handlers record on the objects which Kubernetes Events they have handled.
func (k *Kind) storesEvents() bool {
	for _, events := range k.Events {
		if events.Since > 0 {
			return true
		}
	}
	return false
}

func engineKinds(kinds []Kind) (all []engine.Kind) {
	for _, k := range kinds {
		all = append(all, k.Kind)
	}
	return all
}
