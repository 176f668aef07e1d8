package watching

import (
	"context"
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// Resources returns kinds as if the API server served them in this order, so the first version of each kind is preferred.
func Resources(kinds []metav1.APIResource) (served []Resource) {
	for _, r := range kinds {
		if strings.Contains(r.Name, "/") {
			continue // a subresource
		}
		one := newResource(schema.GroupVersion{Group: r.Group, Version: r.Version}, r)
		one.Preferred = !slices.ContainsFunc(served, func(other Resource) bool { return other.GroupKind() == one.GroupKind() })
		served = append(served, one)
	}
	return served
}

func newResource(gv schema.GroupVersion, r metav1.APIResource) Resource {
	return Resource{
		GroupVersionKind: gv.WithKind(r.Kind), Plural: r.Name, Singular: r.SingularName, ShortNames: r.ShortNames, Categories: r.Categories,
		Verbs: r.Verbs, Namespaced: r.Namespaced,
	}
}

// Served returns the kinds that the API server serves. failed has the errors of group versions that could not be discovered, whose kinds
// are missing from the result.
func Served(ctx context.Context, client discovery.ServerResourcesInterfaceWithContext) (served []Resource, failed map[schema.GroupVersion]error, err error) {
	groups, lists, err := client.ServerGroupsAndResourcesWithContext(ctx)
	if partly, ok := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); ok {
		failed, err = partly.Groups, nil
	}
	if err != nil {
		return nil, nil, err
	}
	preferredVersions := map[string]string{}
	for _, group := range groups {
		preferredVersions[group.Name] = group.PreferredVersion.Version
	}
	hasPreferred := map[schema.GroupKind]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") {
				continue // a subresource
			}
			one := newResource(gv, r)
			one.Preferred = gv.Version == preferredVersions[gv.Group]
			hasPreferred[one.GroupKind()] = hasPreferred[one.GroupKind()] || one.Preferred
			served = append(served, one)
		}
	}
	for i := range served { // if the preferred version of the group lacks a kind, prefer the first version that has it
		if kind := served[i].GroupKind(); !hasPreferred[kind] {
			served[i].Preferred, hasPreferred[kind] = true, true
		}
	}
	return served, failed, nil
}
