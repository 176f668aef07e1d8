package kopf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/peers"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// neededRights computes the permissions that an operator needs.
type neededRights struct {
	operator *Operator
	scheme   *runtime.Scheme
	// namespaces returns the namespaces to which a kind's cache is restricted, or nil if the cache is cluster-wide. For the zero
	// GroupVersionKind, it returns the default namespaces.
	namespaces func(schema.GroupVersionKind) []string
	lookUp     func(schema.GroupVersionKind) (resource schema.GroupResource, namespaced bool)
}

// in returns the permission for each of the namespaces, or for the cluster if the list is empty.
func in(namespaces []string, n rbac.Need) (needs []rbac.Need) {
	if len(namespaces) == 0 {
		return []rbac.Need{n}
	}
	for _, n.Namespace = range namespaces {
		needs = append(needs, n)
	}
	return needs
}

// inDefault returns the permission for each of the cache's default namespaces.
func (r *neededRights) inDefault(n rbac.Need) []rbac.Need {
	return in(r.namespaces(schema.GroupVersionKind{}), n)
}

func (r *neededRights) of(gvk schema.GroupVersionKind, level rbac.Level, reason string, verbs ...string) []rbac.Need {
	gr, namespaced := r.lookUp(gvk)
	n := rbac.Need{Group: gr.Group, Resource: gr.Resource, Verbs: verbs, Level: level, Reason: reason}
	if !namespaced {
		return []rbac.Need{n}
	}
	return in(r.namespaces(gvk), n)
}

// ofKind returns the permissions for a kind, its related kinds and its Events. The kind's HasStatus must be set.
func (r *neededRights) ofKind(kind *kinds.Kind) (needs []rbac.Need) {
	watch, reason := rbac.Required, "handlers of "+kind.GVK.Kind
	if kind.WhenServed || r.operator.kinds.Namespaces != nil {
		watch = rbac.Needed // without this permission, the operator handles the other kinds and namespaces
	}
	needs = append(needs, r.of(kind.GVK, watch, reason, "list", "watch")...)
	if kind.WritesEventChanges() || len(kind.Handlers.IDs())+len(kind.BackgroundHandlers.IDs())+len(kind.ReconcileHandlers.IDs()) > 0 {
		writes := r.of(kind.GVK, rbac.Needed, reason, "get", "patch")
		needs = append(needs, writes...)
		if kind.HasStatus {
			for _, n := range writes {
				n.Resource, n.Verbs = n.Resource+"/status", []string{"patch"}
				needs = append(needs, n)
			}
		}
		needs = append(needs, r.ofSideObjects(kind.GVK)...)
	}
	if r.operator.kinds.Ring.MovesObjects(&kind.Kind) {
		needs = append(needs, r.of(kind.GVK, rbac.Required, "sharding: the labels of released objects", "get", "patch")...)
	}
	if _, namespaced := r.lookUp(kind.GVK); !namespaced && len(r.namespaces(schema.GroupVersionKind{})) > 0 {
		events := r.operator.eventRights()
		events.Namespace = metav1.NamespaceDefault // Events about cluster-scoped objects are created here
		needs = append(needs, events)
	}
	for _, related := range kind.Related {
		needs = append(needs, r.of(related.GVK, watch, related.Method+" of "+kind.GVK.Kind, "list", "watch")...)
	}
	for _, events := range kind.Events {
		needs = append(needs, r.ofEventSelection(kind, events, watch)...)
	}
	return needs
}

// ofEventSelection returns the permissions of an OnEventAbout handler.
func (r *neededRights) ofEventSelection(kind *kinds.Kind, s *kinds.EventSelection, watch rbac.Level) (needs []rbac.Need) {
	reason := "OnEventAbout of " + kind.GVK.Kind
	namespaces := r.namespaces(kind.GVK)
	if _, namespaced := r.lookUp(kind.GVK); !namespaced {
		namespaces = kinds.WithDefaultNamespace(r.namespaces(schema.GroupVersionKind{}))
	}
	needs = in(namespaces, rbac.Need{Resource: "events", Verbs: []string{"list", "watch"}, Level: watch, Reason: reason})
	for _, gvk := range s.Read() {
		gr, namespaced := r.lookUp(gvk)
		n := rbac.Need{Group: gr.Group, Resource: gr.Resource, Verbs: []string{"get"}, Level: rbac.Needed, Reason: reason}
		if namespaced {
			needs = append(needs, in(namespaces, n)...)
		} else {
			needs = append(needs, n)
		}
	}
	return needs
}

func (r *neededRights) ofSideObjects(gvk schema.GroupVersionKind) []rbac.Need {
	side, ok := r.operator.kinds.Settings.Remote.(*progress.SideObjects)
	if !ok || side == nil {
		return nil
	}
	n := rbac.Need{Resource: "configmaps", Verbs: []string{"get", "create", "update", "delete"}, Level: rbac.Needed, Reason: "progress in side objects"}
	if side.Secrets {
		n.Resource = "secrets"
	}
	if _, namespaced := r.lookUp(gvk); !namespaced {
		n.Namespace = side.Namespace
		return []rbac.Need{n}
	}
	return in(r.namespaces(gvk), n)
}

// discoveryRights returns the permission to notice new kinds soon.
func (d *declared) discoveryRights(string) []rbac.Need {
	if !d.hasDynamicKinds() {
		return nil
	}
	return []rbac.Need{{
		Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Verbs: []string{"watch"},
		Reason: "optional: without it, new kinds are noticed within 10 seconds",
	}}
}

// webhookRights returns the permissions for the certificates and configurations of webhooks.
func (d *declared) webhookRights(namespace string) []rbac.Need {
	if d.webhookOptions == nil {
		return nil
	}
	return ofWebhooks(*d.webhookOptions, namespace)
}

// ofHandlers returns the permissions for Events and for the handlers' own requests.
func (r *neededRights) ofHandlers() (needs []rbac.Need, err error) {
	o := r.operator
	needs = append(needs, r.inDefault(o.eventRights())...)
	for _, declared := range o.needs {
		gvk, gvkErr := gvkOf(declared.obj, r.scheme)
		if gvkErr != nil {
			err = errors.Join(err, fmt.Errorf("Needs(%T): the kind is not registered in the scheme: %w", declared.obj, gvkErr))
			continue
		}
		needs = append(needs, r.of(gvk, rbac.Needed, declaredNeeds, declared.verbs...)...)
	}
	for _, rule := range o.neededRules {
		for _, n := range rbac.NeedsOf(rule, "") {
			n.Level, n.Reason = rbac.Needed, declaredNeeds
			if r.isNamespaced(n.Group, n.Resource) {
				needs = append(needs, r.inDefault(n)...)
			} else {
				needs = append(needs, n)
			}
		}
	}
	return needs, err
}

// eventRights returns the permission to post Events.
func (d *declared) eventRights() rbac.Need {
	if d.eventNames != nil {
		return rbac.Need{Resource: "events", Verbs: []string{"create"}, Reason: "Events"}
	}
	return rbac.Need{Group: "events.k8s.io", Resource: "events", Verbs: []string{"create", "patch"}, Reason: "Events"}
}

const declaredNeeds = "the handlers' own requests"

// checkWebhooks returns an error if the permissions for webhooks with these options can't be computed. namespace is the operator's own.
func checkWebhooks(scheme *runtime.Scheme, options webhooks.Options, namespace string) error {
	options.Namespace = cmp.Or(options.Namespace, namespace)
	if options.Namespace == "" && secretOf(options) != "" {
		return errors.New("rights.Options has no Namespace: set it to the namespace of the operator, which contains the Secret of the certificates")
	}
	if options.Configurations == webhooks.Unmanaged {
		return nil
	}
	if _, err := webhooks.Manifests(scheme, options); err != nil {
		return fmt.Errorf("WithWebhooks: %w", err)
	}
	return nil
}

// secretOf returns the name of the Secret with self-managed certificates, or an empty string without such certificates.
func secretOf(options webhooks.Options) string {
	switch c := options.Certificates.(type) {
	case webhooks.SelfManaged:
		return cmp.Or(c.SecretName, webhooks.DefaultSecretName)
	case *webhooks.SelfManaged:
		if c != nil {
			return cmp.Or(c.SecretName, webhooks.DefaultSecretName)
		}
	}
	return ""
}

func ofWebhooks(options webhooks.Options, namespace string) (needs []rbac.Need) {
	for _, plural := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
		n := rbac.Need{Group: "admissionregistration.k8s.io", Resource: plural, Name: options.Name, Level: rbac.Needed, Reason: "webhook configurations"}
		create := n
		create.Name, create.Verbs = "", []string{"create"} // RBAC can't restrict create to a name
		switch options.Configurations {
		case webhooks.Unmanaged:
		case webhooks.Managed:
			n.Verbs = []string{"get", "list", "watch", "patch", "delete"}
			needs = append(needs, n, create)
		case webhooks.Injected:
			n.Verbs = []string{"get", "list", "watch", "patch"}
			needs = append(needs, n)
		}
	}
	namespace = cmp.Or(options.Namespace, namespace)
	if name := secretOf(options); name != "" && namespace != "" {
		n := rbac.Need{
			Resource: "secrets", Name: name, Namespace: namespace, Verbs: []string{"get", "list", "watch", "update"},
			Level: rbac.Needed, Reason: "certificates of webhooks",
		}
		create := n
		create.Name, create.Verbs = "", []string{"create"}
		needs = append(needs, n, create)
	}
	return needs
}

// isNamespaced returns false for the built-in cluster-scoped resources and their subresources, and true for all others.
func (r *neededRights) isNamespaced(group, resource string) bool {
	resource, _, _ = strings.Cut(resource, "/")
	for kind := range clusterScoped {
		if kind.Group == group && guessPlural(kind.WithVersion("")) == resource {
			return false
		}
	}
	return true
}

// presentRights returns the permissions that the operator needs for the given kinds. The namespaces only matter with WithNamespaces.
func (o *Operator) presentRights(checked map[schema.GroupVersionKind]kinds.Kind, namespaces []string) ([]rbac.Need, error) {
	r := neededRights{operator: o, scheme: o.mgr.GetScheme(), namespaces: func(gvk schema.GroupVersionKind) []string {
		if o.kinds.Namespaces != nil {
			return namespaces
		}
		return o.kinds.CachedNamespaces(gvk, checked[gvk].Client != nil)
	}, lookUp: func(gvk schema.GroupVersionKind) (schema.GroupResource, bool) {
		mapping, err := o.mgr.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return lookUpIn(nil, gvk)
		}
		return mapping.Resource.GroupResource(), mapping.Scope.Name() == meta.RESTScopeNameNamespace
	}}
	needs := slices.DeleteFunc(operator.Rights(o.parts(nil), podNamespace()), func(n rbac.Need) bool { return !isServedPeering(o.mgr, n) })
	if o.kinds.Namespaces != nil && len(namespaces) == 0 {
		return needs, nil // the namespaces aren't known yet
	}
	for _, one := range checked {
		needs = append(needs, r.ofKind(&one)...)
	}
	more, err := r.ofHandlers()
	return append(needs, more...), err
}

// isServedPeering returns false for peering objects that the API server doesn't serve, since the operator then has no peers.
func isServedPeering(mgr manager.Manager, n rbac.Need) bool {
	kind, isPeering := peers.KindOf(n)
	if !isPeering {
		return true
	}
	_, err := mgr.GetRESTMapper().RESTMapping(kind, "v1")
	return err == nil
}

// podNamespace returns the namespace of the pod in which the operator runs, or an empty string outside of a pod.
func podNamespace() string {
	namespace, err := validation.PodNamespace()
	if err != nil {
		return ""
	}
	return namespace
}
