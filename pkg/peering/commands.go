package peering

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
)

// Target selects peering objects.
type Target struct {
	// Name is the name of the objects. Default: "default".
	Name string
	// Namespaces selects the KopfPeering objects in these namespaces. Patterns such as "team-*" are allowed. If empty, the target is the
	// ClusterKopfPeering.
	Namespaces []string
}

// Object is a peering object of any kind and group with its records.
type Object struct {
	Group, Kind, Namespace, Name string
	// Peers contains all peers with a readable record, including dead peers, sorted by identity.
	Peers []Peer
	// Unreadable contains the records that can't be decoded.
	Unreadable []Unreadable
}

// List returns the selected peering objects. It returns an error if none exists.
func (c *Client) List(ctx context.Context, target Target) ([]Object, error) {
	found, err := c.find(ctx, target)
	if err != nil {
		return nil, err
	}
	var objects []Object
	for _, f := range found {
		objects = append(objects, f.toObject())
	}
	return objects, nil
}

// Freeze writes a record once and doesn't renew it. Operators with the same or a lower priority pause until the record expires or
// [Client.Resume] removes it. Its Lifetime must be at least one second, and at most [MaxLifetime]. If LastSeen is zero, Freeze sets it to
// the current time. Freeze returns the changed objects, even if other writes failed.
//
// Equivalent in kopf: kopf freeze.
func (c *Client) Freeze(ctx context.Context, target Target, identity string, record Record) ([]Object, error) {
	if record.Lifetime < time.Second {
		return nil, fmt.Errorf("peering: the lifetime of the record must be at least one second, got %s", record.Lifetime)
	}
	if record.Lifetime > MaxLifetime {
		return nil, fmt.Errorf("peering: the lifetime of the record must be at most %s, got %s: operators treat a longer one as this one", MaxLifetime, record.Lifetime)
	}
	if record.LastSeen.IsZero() {
		record.LastSeen = time.Now()
	}
	body, err := recordPatch(identity, record)
	if err != nil {
		return nil, err
	}
	return c.patchAll(ctx, target, body)
}

// Resume removes the record of the identity, if there is one. It returns the patched objects, even if other writes failed.
//
// Equivalent in kopf: kopf resume.
func (c *Client) Resume(ctx context.Context, target Target, identity string) ([]Object, error) {
	body, err := removalPatch(identity)
	if err != nil {
		return nil, err
	}
	return c.patchAll(ctx, target, body)
}

// patchAll patches all objects, even after a failure. It returns the patched objects and the joined errors.
func (c *Client) patchAll(ctx context.Context, target Target, body []byte) ([]Object, error) {
	objects, err := c.find(ctx, target)
	if err != nil {
		return nil, err
	}
	var done []Object
	var problems []error
	for _, o := range objects {
		changed, err := c.patch(ctx, o.kind, o.object.GetNamespace(), o.object.GetName(), body)
		if err != nil {
			problems = append(problems, fmt.Errorf("peering: %s: %w", o.text(), explainForbidden(err, o.kind)))
			continue
		}
		done = append(done, foundObject{o.kind, changed}.toObject())
	}
	return done, errors.Join(problems...)
}

type foundObject struct {
	kind   kind
	object *unstructured.Unstructured
}

// text returns the object's kind and name for errors.
func (f foundObject) text() string {
	return f.kind.name + " " + strings.TrimPrefix(f.object.GetNamespace()+"/"+f.object.GetName(), "/")
}

func (f foundObject) toObject() Object {
	o := Object{
		Group: f.kind.resource.Group, Kind: f.kind.name, Namespace: f.object.GetNamespace(), Name: f.object.GetName(),
	}
	var observations Observations
	o.Peers, o.Unreadable = observations.Observe(f.object.Object["status"], time.Now())
	return o
}

func (c *Client) find(ctx context.Context, target Target) ([]foundObject, error) {
	if target.Name == "" {
		target.Name = DefaultName
	}
	for _, pattern := range target.Namespaces {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return nil, fmt.Errorf("peering: %q is not a valid namespace or pattern: use one such as team-*", pattern)
		}
	}
	var all []foundObject
	served := false
	for _, group := range groups {
		k, err := c.kind(ctx, group, len(target.Namespaces) > 0)
		if err != nil {
			return nil, fmt.Errorf("peering: %w", err)
		}
		if k == nil {
			continue
		}
		served = true
		some, err := c.findNamed(ctx, *k, target)
		if err != nil {
			return nil, fmt.Errorf("peering: %w", explainForbidden(err, *k))
		}
		all = append(all, some...)
	}
	switch {
	case !served:
		return nil, fmt.Errorf("peering: the API server does not serve %s: install the CustomResourceDefinitions of %s",
			plural(len(target.Namespaces) > 0), v1.Group)
	case len(all) == 0 && len(target.Namespaces) > 0:
		return nil, fmt.Errorf("peering: the KopfPeering %q does not exist in the namespaces %s: create it or correct the names",
			target.Name, strings.Join(target.Namespaces, ", "))
	case len(all) == 0:
		return nil, fmt.Errorf("peering: the ClusterKopfPeering %q does not exist: create it or correct the name", target.Name)
	}
	return all, nil
}

func (c *Client) findNamed(ctx context.Context, k kind, target Target) (all []foundObject, err error) {
	namespaces := target.Namespaces
	if len(namespaces) == 0 || strings.ContainsAny(strings.Join(namespaces, ""), `*?[\`) {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		list, err := c.objects(k, namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + target.Name})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if o := &list.Items[i]; len(target.Namespaces) == 0 || matchesAny(target.Namespaces, o.GetNamespace()) {
				all = append(all, foundObject{k, o})
			}
		}
	}
	return all, nil
}

func matchesAny(patterns []string, namespace string) bool {
	for _, pattern := range patterns {
		if ok, _ := path.Match(pattern, namespace); ok {
			return true
		}
	}
	return false
}
