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

// A Target names peering objects.
type Target struct {
	// Name of the objects. Default: "default".
	Name string
	// Namespaces whose objects are meant, of the kind KopfPeering; patterns such as "team-*" match those that have
	// one. None: the ClusterKopfPeering.
	Namespaces []string
}

// An Object is a peering object, and who has records there. It is the same whichever kind and group it is of.
type Object struct {
	Group, Kind, Namespace, Name string
	// Peers with their records, in the order of their identities; those that are dead by now included.
	Peers []Peer
	// Unreadable records.
	Unreadable []Unreadable
}

// List returns the peering objects that are meant. It is an error if there are none, as nobody would look at them.
func (c *Client) List(ctx context.Context, target Target) ([]Object, error) {
	found, err := c.find(ctx, target)
	if err != nil {
		return nil, err
	}
	var objects []Object
	for _, f := range found {
		objects = append(objects, f.describe())
	}
	return objects, nil
}

// Freeze writes a record, once: operators of a lower priority pause until its lifetime is over, or until [Client.Resume]. A
// record that does not say when it was written was written now. The objects are returned as they are then.
//
// kopf: kopf freeze.
func (c *Client) Freeze(ctx context.Context, target Target, identity string, record Record) ([]Object, error) {
	if record.Lifetime < time.Second {
		return nil, fmt.Errorf("peering: the lifetime of the record is %s: use one of at least a second", record.Lifetime)
	}
	if record.LastSeen.IsZero() {
		record.LastSeen = time.Now()
	}
	body, err := writing(identity, record)
	if err != nil {
		return nil, err
	}
	return c.patchAll(ctx, target, body)
}

// Resume removes the record of the identity, if there is one. The objects are returned as they are then.
//
// kopf: kopf resume.
func (c *Client) Resume(ctx context.Context, target Target, identity string) ([]Object, error) {
	body, err := removing(identity)
	if err != nil {
		return nil, err
	}
	return c.patchAll(ctx, target, body)
}

// patchAll does as much as it can: what has failed for one object may be done for the others.
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
			problems = append(problems, fmt.Errorf("peering: %s: %w", o.object.GetNamespace(), explain(err, o.kind)))
			continue
		}
		done = append(done, found{o.kind, changed}.describe())
	}
	return done, errors.Join(problems...)
}

type found struct {
	kind   kind
	object *unstructured.Unstructured
}

func (f found) describe() Object {
	o := Object{
		Group: f.kind.resource.Group, Kind: f.kind.name, Namespace: f.object.GetNamespace(), Name: f.object.GetName(),
	}
	var sightings Sightings
	o.Peers, o.Unreadable = sightings.See(f.object.Object["status"], time.Now())
	return o
}

func (c *Client) find(ctx context.Context, target Target) ([]found, error) {
	if target.Name == "" {
		target.Name = DefaultName
	}
	for _, pattern := range target.Namespaces {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return nil, fmt.Errorf("peering: %q is neither a namespace nor a pattern such as team-*", pattern)
		}
	}
	var all []found
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
		some, err := c.named(ctx, *k, target)
		if err != nil {
			return nil, fmt.Errorf("peering: %w", explain(err, *k))
		}
		all = append(all, some...)
	}
	switch {
	case !served:
		return nil, fmt.Errorf("peering: the API server has no %s: install the CustomResourceDefinitions of %s",
			plural(len(target.Namespaces) > 0), v1.Group)
	case len(all) == 0 && len(target.Namespaces) > 0:
		return nil, fmt.Errorf("peering: there is no KopfPeering %q in the namespaces %s: create it first, or correct the names",
			target.Name, strings.Join(target.Namespaces, ", "))
	case len(all) == 0:
		return nil, fmt.Errorf("peering: there is no ClusterKopfPeering %q: create it first, or correct the name", target.Name)
	}
	return all, nil
}

func (c *Client) named(ctx context.Context, k kind, target Target) (all []found, err error) {
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
			if o := &list.Items[i]; len(target.Namespaces) == 0 || anyMatches(target.Namespaces, o.GetNamespace()) {
				all = append(all, found{k, o})
			}
		}
	}
	return all, nil
}

func anyMatches(patterns []string, namespace string) bool {
	for _, pattern := range patterns {
		if ok, _ := path.Match(pattern, namespace); ok {
			return true
		}
	}
	return false
}
