package kopf

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

// lookUp asks how a kind is served: what can be done with it (nil: it is not served), whether it has the status
// subresource, and whether it is in namespaces.
func discoverKind(client discovery.DiscoveryInterface, gvk schema.GroupVersionKind) (verbs metav1.Verbs, hasStatus, namespaced bool, err error) {
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

// checkVerbs tells why handlers cannot be had for a kind, though it is served: some can only be read, or only be
// asked for one by one. It is about this kind alone.
func checkVerbs(kind *engine.Kind, verbs metav1.Verbs) error {
	need, remedy := []string{"list", "watch"}, "there is nothing that handlers could follow: leave the kind out"
	lacks := func(verb string) bool { return !slices.Contains(verbs, verb) }
	if !slices.ContainsFunc(need, lacks) && len(kind.Handlers.IDs())+len(kind.Backgrounds.IDs()) > 0 {
		need, remedy = []string{"patch"}, "what is handled cannot be kept on its objects: only OnEvent, OnReconcile and IndexBy are possible"
	}
	if !slices.ContainsFunc(need, lacks) {
		return nil
	}
	return fmt.Errorf("%s: the API server serves %s, but not with the verbs that are needed (it has %s, and not all of %s): %s",
		kind.GVK.Kind, kind.GVK.GroupVersion(), strings.Join(verbs, ", "), strings.Join(need, ", "), remedy)
}
