package kinds

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
)

// discover returns which verbs the API server supports for a kind, and whether it has the status subresource and is namespaced. The verbs
// are nil if the kind is not served.
func discover(client discovery.DiscoveryInterface, gvk schema.GroupVersionKind) (verbs metav1.Verbs, hasStatus, namespaced bool, err error) {
	list, err := client.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return nil, false, false, nil
	}
	if err != nil {
		return nil, false, false, err
	}
	plural := ""
	for _, r := range list.APIResources {
		if r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") {
			plural, verbs, namespaced = r.Name, append(metav1.Verbs{}, r.Verbs...), r.Namespaced
		}
	}
	for _, r := range list.APIResources {
		hasStatus = hasStatus || verbs != nil && r.Name == plural+"/status"
	}
	return verbs, hasStatus, namespaced, nil
}

// CheckVerbs returns an error if the API server serves the kind without verbs that the handlers need. For example, some kinds can't be
// watched, and others can't be patched. storesEvents is true if handlers record on the objects which Kubernetes Events they have handled.
func CheckVerbs(kind *engine.Kind, storesEvents bool, verbs metav1.Verbs) error {
	// While the API server deletes the objects of a CustomResourceDefinition, it hides the verbs create, update and patch. The operator
	// must handle these deletions, otherwise its finalizers would keep the definition from being deleted.
	required, advice := []string{"list", "watch"}, "handlers cannot observe its objects: remove the kind"
	isMissing := func(verb string) bool { return !slices.Contains(verbs, verb) }
	isTerminating := isMissing("create") && isMissing("patch") && !isMissing("delete") // the definition is being deleted; objects can still be patched
	writes := kind.WritesEventChanges() || storesEvents || len(kind.Handlers.IDs())+len(kind.BackgroundHandlers.IDs()) > 0
	if !isTerminating && !slices.ContainsFunc(required, isMissing) && writes {
		required, advice = []string{"patch"}, "nothing can be stored on its objects: use only OnEvent without WriteChanges, OnReconcile, OnEventAbout without Since, and IndexBy"
	}
	if !slices.ContainsFunc(required, isMissing) {
		return nil
	}
	return fmt.Errorf("%s: the API server serves %s, but without all required verbs (has %s, requires %s): %s",
		kind.GVK.Kind, kind.GVK.GroupVersion(), strings.Join(verbs, ", "), strings.Join(required, ", "), advice)
}
