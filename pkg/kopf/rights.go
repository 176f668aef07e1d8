package kopf

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/watching"
)

// Needs declares the verbs that handlers use with the request's client, for example on child objects. [WriteRights] adds these permissions
// to the roles, and the operator checks them when it starts (see [WithRightsCheck]). To read from the cache, handlers need list and watch.
//
//	kopf.Needs(&appsv1.Deployment{}, "get", "list", "watch", "create", "patch")
func Needs(obj client.Object, verbs ...string) Option {
	return optionFunc(func(o *Operator) {
		switch {
		case isNil(obj):
			o.addError(errors.New("Needs(nil): pass an empty object of the kind, such as &appsv1.Deployment{}"))
		case len(verbs) == 0:
			o.addError(fmt.Errorf("Needs(%T) has no verbs: pass at least one, such as \"get\"", obj))
		case slices.ContainsFunc(verbs, isInvalidVerb):
			o.addError(fmt.Errorf("Needs(%T, %q): verbs are lower-case words, such as \"get\"", obj, verbs))
		default:
			o.needs = append(o.needs, declaredNeed{obj, verbs})
		}
	})
}

// NeedsRules is like [Needs], but takes rules, for example for subresources:
//
//	kopf.NeedsRules(rbacv1.PolicyRule{APIGroups: []string{"example.com"}, Resources: []string{"databases/finalizers"}, Verbs: []string{"update"}})
func NeedsRules(rules ...rbacv1.PolicyRule) Option {
	return optionFunc(func(o *Operator) {
		for _, rule := range rules {
			if len(rule.APIGroups) == 0 || len(rule.Resources) == 0 || len(rule.Verbs) == 0 || len(rule.NonResourceURLs) > 0 || slices.ContainsFunc(rule.Verbs, isInvalidVerb) {
				o.addError(fmt.Errorf("NeedsRules: the rule %+v must have apiGroups, resources and verbs in lower case, and no URLs", rule))
			}
		}
		o.neededRules = append(o.neededRules, rules...)
	})
}

func isInvalidVerb(verb string) bool { return verb == "" || verb != strings.ToLower(verb) }

const leaderElection = "leader election"

// lookUpIn returns the resource of a kind, and whether it is namespaced.
func lookUpIn(kinds []metav1.APIResource, gvk schema.GroupVersionKind) (schema.GroupResource, bool) {
	for _, kind := range kinds {
		if kind.Group == gvk.Group && kind.Kind == gvk.Kind && !strings.Contains(kind.Name, "/") {
			return schema.GroupResource{Group: gvk.Group, Resource: kind.Name}, kind.Namespaced
		}
	}
	return schema.GroupResource{Group: gvk.Group, Resource: guessPlural(gvk)}, !clusterScoped[gvk.GroupKind()]
}

// guessPlural returns the plural of a kind, assuming that it is a regular English word.
func guessPlural(gvk schema.GroupVersionKind) string {
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	singular := strings.ToLower(gvk.Kind)
	for _, end := range []string{"x", "z", "ch", "sh"} {
		if strings.HasSuffix(singular, end) {
			return singular + "es"
		}
	}
	for _, end := range []string{"ay", "ey", "oy", "uy"} {
		if strings.HasSuffix(singular, end) {
			return singular + "s"
		}
	}
	return plural.Resource
}

// clusterScoped contains the built-in kinds without namespaces.
var clusterScoped = map[schema.GroupKind]bool{
	{Kind: "Namespace"}: true, {Kind: "Node"}: true, {Kind: "PersistentVolume"}: true,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:   true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}: true,
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:               true,
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:                           true,
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}:               true,
	{Group: "networking.k8s.io", Kind: "IngressClass"}:                              true,
	{Group: "node.k8s.io", Kind: "RuntimeClass"}:                                    true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:                       true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:                true,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:                             true,
	{Group: "storage.k8s.io", Kind: "CSIDriver"}:                                    true,
	{Group: "storage.k8s.io", Kind: "CSINode"}:                                      true,
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                                 true,
	{Group: "storage.k8s.io", Kind: "VolumeAttachment"}:                             true,
}

// hasStatus reports whether an object's kind has the status subresource. If kinds doesn't say, it guesses from the type.
func hasStatus(kinds []metav1.APIResource, obj client.Object, gvk schema.GroupVersionKind) bool {
	for _, kind := range kinds {
		if kind.Group == gvk.Group && kind.Kind == gvk.Kind {
			plural, _, _ := strings.Cut(kind.Name, "/")
			if !slices.ContainsFunc(kinds, func(other metav1.APIResource) bool { return strings.Contains(other.Name, "/") }) {
				break // the list omits subresources, as the list of preferred resources does
			}
			return slices.ContainsFunc(kinds, func(other metav1.APIResource) bool {
				return other.Group == kind.Group && other.Name == plural+"/status"
			})
		}
	}
	t := reflect.TypeOf(obj).Elem()
	switch obj.(type) {
	case *metav1.PartialObjectMetadata:
		return false
	case runtime.Unstructured:
		return true
	}
	for field := range t.Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name == "status" {
			return true
		}
	}
	return false
}

// declarations returns the declarations for the selected kinds. Without kinds, it returns the resources of the patterns instead.
func (s *kindSelection) declarations(kinds []metav1.APIResource) (declared []resource, patterns []schema.GroupResource, err error) {
	if len(kinds) == 0 {
		if s.selector.match != nil {
			return nil, nil, errors.New("ForKinds(KindsFunc(...)): the kinds are not known: set Kinds of rights.Options")
		}
		for _, p := range s.selector.patterns {
			gr, ok := p.GroupResource()
			if !ok {
				return nil, nil, fmt.Errorf("ForKinds: the group and the plural of the pattern %q are not known: write it as plural.group, or set Kinds of rights.Options", p)
			}
			patterns = append(patterns, gr)
		}
		return nil, patterns, nil
	}
	selected, problems := s.selector.choose(watching.Resources(kinds))
	err = errors.Join(problems...)
	if len(selected) == 0 {
		err = errors.Join(err, fmt.Errorf("ForKinds(%s) selects none of the Kinds of rights.Options: set all kinds that the operator handles", s.selector))
	}
	for _, r := range selected {
		one, invalid := s.declarationOf(apiResource(r))
		if invalid != nil {
			err = errors.Join(err, invalid)
			continue
		}
		declared = append(declared, one)
	}
	return declared, nil, err
}
