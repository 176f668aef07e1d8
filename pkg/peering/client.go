package peering

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	v1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
)

// groups are the API groups of peering objects. The operator uses all that the API server serves.
var groups = []string{v1.Group, v1.LegacyGroup}

// kind describes how the API server serves peering objects.
type kind struct {
	resource   schema.GroupVersionResource
	name       string
	namespaced bool
	hasStatus  bool // whether the kind has the status subresource; if so, writes of the object itself don't change the status
}

// errUnserved means that the API server changed how it serves a kind.
var errUnserved = errors.New("the API server no longer serves the kind in the same way")

// api sends the requests to the API server. Tests replace it.
type api interface {
	// kind returns how the API server serves the kind of a group, or nil if it doesn't.
	kind(ctx context.Context, group string, namespaced bool) (*kind, error)
	// watch calls handle with the current version of an object and with all later events, until the watch closes or fails. It doesn't call
	// handle if the watch can't be started.
	watch(ctx context.Context, k kind, namespace, name string, handle func(observedObject)) error
	// patch applies a merge patch to the status and returns the patched object.
	patch(ctx context.Context, k kind, namespace, name string, body []byte) (*unstructured.Unstructured, error)
}

// observedObject is one observation of a peering object.
type observedObject struct {
	object     *unstructured.Unstructured // observed version; nil if the object does not exist
	deletedUID types.UID                  // UID of a deleted object, if known
	err        error                      // error of the watch, or nil
}

// Client reads and writes peering objects for programs that aren't operators. It finds out which of the groups kopf.dev and zalando.org are
// served.
type Client struct {
	discovery *discovery.DiscoveryClient
	dynamic   dynamic.Interface
}

// NewClient returns a client. If httpClient is nil, it is created from the configuration.
func NewClient(config *rest.Config, httpClient *http.Client) (*Client, error) {
	if httpClient == nil {
		var err error
		if httpClient, err = rest.HTTPClientFor(config); err != nil {
			return nil, fmt.Errorf("peering: %w", err)
		}
	}
	d, err := discovery.NewDiscoveryClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("peering: %w", err)
	}
	dyn, err := dynamic.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("peering: %w", err)
	}
	return &Client{discovery: d, dynamic: dyn}, nil
}

func (c *Client) kind(ctx context.Context, group string, namespaced bool) (*kind, error) {
	version := schema.GroupVersion{Group: group, Version: v1.Version}
	list, err := c.discovery.ServerResourcesForGroupVersionWithContext(ctx, version.String())
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("discovering the resources of %s: %w", version, err)
	}
	plural := plural(namespaced)
	var found *kind
	for _, r := range list.APIResources {
		if r.Name == plural {
			found = &kind{resource: version.WithResource(plural), name: r.Kind, namespaced: namespaced}
		}
	}
	for _, r := range list.APIResources {
		if found != nil && r.Name == plural+"/status" {
			found.hasStatus = true
		}
	}
	return found, nil
}

func plural(namespaced bool) string {
	if namespaced {
		return v1.NamespacedPlural
	}
	return v1.ClusterPlural
}

func (c *Client) objects(k kind, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return c.dynamic.Resource(k.resource)
	}
	return c.dynamic.Resource(k.resource).Namespace(namespace)
}

func (c *Client) watch(ctx context.Context, k kind, namespace, name string, handle func(observedObject)) error {
	options := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	list, err := c.objects(k, namespace).List(ctx, options)
	if apierrors.IsNotFound(err) {
		return errUnserved // the kind isn't served: if only the object were missing, the list would be empty
	}
	if err != nil {
		return err
	}
	options.ResourceVersion, options.AllowWatchBookmarks = list.GetResourceVersion(), true
	options.TimeoutSeconds = new(300 + rand.Int64N(300)) // spread the restarts of watches
	w, err := c.objects(k, namespace).Watch(ctx, options)
	if err != nil {
		return err
	}
	defer w.Stop()
	if len(list.Items) == 0 {
		handle(observedObject{})
	}
	for i := range list.Items {
		handle(observedObject{object: &list.Items[i]})
	}
	for event := range w.ResultChan() {
		object, isObject := event.Object.(*unstructured.Unstructured)
		switch {
		case event.Type == watch.Error:
			if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
				return err
			}
			return nil // the caller lists again
		case !isObject || object.GetName() != name:
		case event.Type == watch.Deleted:
			handle(observedObject{deletedUID: object.GetUID()})
		case event.Type == watch.Added, event.Type == watch.Modified:
			handle(observedObject{object: object})
		}
	}
	return nil
}

func (c *Client) patch(ctx context.Context, k kind, namespace, name string, body []byte) (*unstructured.Unstructured, error) {
	var subresources []string
	if k.hasStatus {
		subresources = []string{"status"}
	}
	return c.objects(k, namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
}

// explainForbidden adds the RBAC rule that peering needs to an error about missing permissions.
func explainForbidden(err error, k kind) error {
	if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		return err
	}
	rule := rbac.Rule{Group: k.resource.Group, Resources: []string{k.resource.Resource}, Verbs: []string{"list", "watch", "patch"}}
	if k.hasStatus {
		rule.Resources = append(rule.Resources, k.resource.Resource+"/status")
	}
	if missing := rbac.MissingRules(err); len(missing) > 0 {
		rule.Scope = missing[0].Scope
	}
	return rbac.WithMissingRules(err, rule)
}
