package kinds

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// errNotServed returns the error for a kind that the API server does not serve. If it can, it suggests the most similar kind, or the same
// kind in a different version or group. API groups that the server can't list at the moment are left out.
func errNotServed(client discovery.DiscoveryInterface, gvk schema.GroupVersionKind) error {
	_, lists, _ := client.ServerGroupsAndResources() // even after an error, the result contains the readable groups
	var all []ServedKind
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				all = append(all, ServedKind{gv.WithKind(r.Kind), r})
			}
		}
	}
	return ExplainNotServed(all, gvk)
}

// A ServedKind is a served kind with its resource.
type ServedKind struct {
	schema.GroupVersionKind
	Resource metav1.APIResource
}

// ExplainNotServed returns the error for a kind that is not among the served ones.
func ExplainNotServed(served []ServedKind, gvk schema.GroupVersionKind) error {
	gv := gvk.GroupVersion()
	var inVersion, inGroup, elsewhere []string // kinds in the version, kinds in the group, and other group versions that have the kind
	versions := map[string]bool{}
	for _, s := range served {
		switch {
		case s.GroupVersion() == gv:
			inVersion = append(inVersion, s.Kind)
			if slices.ContainsFunc(append([]string{s.Resource.Name, s.Resource.SingularName}, s.Resource.ShortNames...),
				func(name string) bool { return strings.EqualFold(name, gvk.Kind) }) {
				return fmt.Errorf("the API server serves %s, but has no kind %s; did you mean %s?", gv, gvk.Kind, s.Kind)
			}
		case s.Kind == gvk.Kind:
			elsewhere = append(elsewhere, s.GroupVersion().String())
		}
		if s.Group == gvk.Group {
			versions[s.Version] = true
			inGroup = append(inGroup, s.Kind)
		}
	}
	slices.Sort(elsewhere)
	prefix := fmt.Sprintf("the API server does not serve %s", gv)
	switch {
	case len(inVersion) > 0:
		prefix = fmt.Sprintf("the API server serves %s, but has no kind %s", gv, gvk.Kind)
	case len(versions) > 0:
		prefix = fmt.Sprintf("the API server does not serve %s, but serves other versions of the group", gv)
	}
	if sameGroup := slices.DeleteFunc(slices.Clone(elsewhere), func(other string) bool { return groupOf(other) != gvk.Group }); len(sameGroup) > 0 {
		return fmt.Errorf("%s; it serves %s in %s: correct the version", prefix, gvk.Kind, strings.Join(sameGroup, ", "))
	}
	if closest, found := validation.Closest(gvk.Kind, append(inVersion, inGroup...)); found {
		return fmt.Errorf("%s; did you mean %s?", prefix, closest)
	}
	if len(elsewhere) > 0 {
		if closest, found := validation.Closest(gv.String(), elsewhere); found {
			return fmt.Errorf("%s; did you mean %s, which has a kind %s?", prefix, closest, gvk.Kind)
		}
		return fmt.Errorf("%s; it serves %s in %s: correct the group, or install the CustomResourceDefinition", prefix, gvk.Kind, strings.Join(elsewhere, ", "))
	}
	if len(inVersion) > 0 || len(versions) > 0 {
		return fmt.Errorf("%s: correct the group, version or kind, or install the CustomResourceDefinition of the kind", prefix)
	}
	return fmt.Errorf("the API server does not serve %s: install its CustomResourceDefinition first, or add WhenServed to For", gv)
}

// groupOf returns an apiVersion's group. If the apiVersion is invalid, it returns a text that no group can equal.
func groupOf(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return "?"
	}
	return gv.Group
}
