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

// groups have the kinds; where both are served, both are used. [wire]
var groups = []string{v1.Group, v1.LegacyGroup}

// A kind is how the API server serves peering objects.
type kind struct {
	resource   schema.GroupVersionResource
	name       string
	namespaced bool
	hasStatus  bool // as a subresource: the object itself takes no status then
}

// errUnserved says that a kind is not served any more, or differently.
var errUnserved = errors.New("the API server does not serve the kind as it did")

// api is what peering asks of the API server.
type api interface {
	// kind tells how a group serves the kind; nil: it does not.
	kind(ctx context.Context, group string, namespaced bool) (*kind, error)
	// follow tells of an object as it is and of all its changes, until the watch ends, or fails. Without a watch, it tells nothing.
	follow(ctx context.Context, k kind, namespace, name string, tell func(look)) error
	// patch writes to the status, by a merge patch, and returns the object as it is then.
	patch(ctx context.Context, k kind, namespace, name string, body []byte) (*unstructured.Unstructured, error)
}

// A look at a peering object.
type look struct {
	object *unstructured.Unstructured // nil: it is not there
	gone   types.UID                  // of the one that was there, if that is known
	err    error                      // the look has failed
}

// A Client reads and writes peering objects: for programs and commands that are no operators themselves. It finds out
// which of the groups kopf.dev and zalando.org are served.
type Client struct {
	discovery *discovery.DiscoveryClient
	dynamic   dynamic.Interface
}

// NewClient makes a client. The HTTP client may be nil.
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
		return nil, fmt.Errorf("asking what the API server serves of %s: %w", version, err)
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

func (c *Client) follow(ctx context.Context, k kind, namespace, name string, tell func(look)) error {
	options := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	list, err := c.objects(k, namespace).List(ctx, options)
	if apierrors.IsNotFound(err) {
		return errUnserved // a list without items is no error
	}
	if err != nil {
		return err
	}
	options.ResourceVersion, options.AllowWatchBookmarks = list.GetResourceVersion(), true
	options.TimeoutSeconds = new(300 + rand.Int64N(300)) // not all watches of a cluster at a time
	w, err := c.objects(k, namespace).Watch(ctx, options)
	if err != nil {
		return err
	}
	defer w.Stop()
	if len(list.Items) == 0 {
		tell(look{})
	}
	for i := range list.Items {
		tell(look{object: &list.Items[i]})
	}
	for event := range w.ResultChan() {
		object, isObject := event.Object.(*unstructured.Unstructured)
		switch {
		case event.Type == watch.Error:
			if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
				return err
			}
			return nil // to be listed again
		case !isObject || object.GetName() != name:
		case event.Type == watch.Deleted:
			tell(look{gone: object.GetUID()})
		case event.Type == watch.Added, event.Type == watch.Modified:
			tell(look{object: object})
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

// explain adds the rule that peering needs to an error of missing permissions.
func explain(err error, k kind) error {
	if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		return err
	}
	rule := rbac.Rule{Group: k.resource.Group, Resources: []string{k.resource.Resource}, Verbs: []string{"list", "watch", "patch"}}
	if k.hasStatus {
		rule.Resources = append(rule.Resources, k.resource.Resource+"/status")
	}
	if missing := rbac.Missing(err); len(missing) > 0 {
		rule.Scope = missing[0].Scope
	}
	return rbac.With(err, rule)
}
