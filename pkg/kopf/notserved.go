package kopf

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// errNotServed explains why a kind cannot be used that the API server does not serve: by its closest kind, or by the same kind in
// another version or group. What the server cannot list now is left out.
func errNotServed(client discovery.DiscoveryInterface, gvk schema.GroupVersionKind) error {
	_, lists, _ := client.ServerGroupsAndResources() // with an error, it returns the groups that it could read
	var served []servedKind
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				served = append(served, servedKind{gv.WithKind(r.Kind), r})
			}
		}
	}
	return explainNotServed(served, gvk)
}

// A servedKind is a kind of the API server with its resource.
type servedKind struct {
	schema.GroupVersionKind
	resource metav1.APIResource
}

func explainNotServed(served []servedKind, gvk schema.GroupVersionKind) error {
	gv := gvk.GroupVersion()
	var here, kinds, elsewhere []string // kinds of the version, those of the group, and other places of the kind
	versions := map[string]bool{}
	for _, s := range served {
		switch {
		case s.GroupVersion() == gv:
			here = append(here, s.Kind)
			if slices.ContainsFunc(append([]string{s.resource.Name, s.resource.SingularName}, s.resource.ShortNames...),
				func(name string) bool { return strings.EqualFold(name, gvk.Kind) }) {
				return fmt.Errorf("the API server serves %s, but has no kind %s; did you mean %s?", gv, gvk.Kind, s.Kind)
			}
		case s.Kind == gvk.Kind:
			elsewhere = append(elsewhere, s.GroupVersion().String())
		}
		if s.Group == gvk.Group {
			versions[s.Version] = true
			kinds = append(kinds, s.Kind)
		}
	}
	slices.Sort(elsewhere)
	what := fmt.Sprintf("the API server does not serve %s", gv)
	switch {
	case len(here) > 0:
		what = fmt.Sprintf("the API server serves %s, but has no kind %s", gv, gvk.Kind)
	case len(versions) > 0:
		what = fmt.Sprintf("the API server does not serve %s, but other versions of the group", gv)
	}
	if sameGroup := slices.DeleteFunc(slices.Clone(elsewhere), func(other string) bool { return groupOf(other) != gvk.Group }); len(sameGroup) > 0 {
		return fmt.Errorf("%s; it serves %s in %s: correct the version", what, gvk.Kind, strings.Join(sameGroup, ", "))
	}
	if closest, found := validation.Closest(gvk.Kind, append(here, kinds...)); found {
		return fmt.Errorf("%s; did you mean %s?", what, closest)
	}
	if len(elsewhere) > 0 {
		if closest, found := validation.Closest(gv.String(), elsewhere); found {
			return fmt.Errorf("%s; did you mean %s, which has a kind %s?", what, closest, gvk.Kind)
		}
		return fmt.Errorf("%s; it serves %s in %s: correct the group, or install the CustomResourceDefinition", what, gvk.Kind, strings.Join(elsewhere, ", "))
	}
	if len(here) > 0 || len(versions) > 0 {
		return fmt.Errorf("%s: correct it, or install its CustomResourceDefinition", what)
	}
	return fmt.Errorf("the API server does not serve %s: install its CustomResourceDefinition first", gv)
}

// checkOwned reports an owned kind that cannot be watched: the operator would wait for it in vain.
func checkOwned(client discovery.DiscoveryInterface, kind *engine.Kind, c ownedKind) error {
	verbs, _, _, err := discoverKind(client, c.gvk)
	switch {
	case err != nil:
		return fmt.Errorf("%s: asking whether the API server serves %s, which it owns: %w", kind.GVK.Kind, c.gvk.Kind, err)
	case verbs == nil:
		return fmt.Errorf("%s: Owns(%s): %w", kind.GVK.Kind, c.gvk.Kind, errNotServed(client, c.gvk))
	case !slices.Contains(verbs, "list") || !slices.Contains(verbs, "watch"):
		return fmt.Errorf("%s: Owns(%s): the API server does not list and watch the kind (it has %s): leave it out",
			kind.GVK.Kind, c.gvk.Kind, strings.Join(verbs, ", "))
	}
	return nil
}
