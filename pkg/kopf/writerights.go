package kopf

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
)

// WriteRights writes the roles that an operator needs as YAML, with the reason for each rule. It takes the same options as [New], and needs
// no API server. Use it in a small program, or use kopftest.CheckRights in a test, so that the roles in your repository always match the
// code.
//
//	err := kopf.WriteRights(os.Stdout, scheme, rights.Options{Name: "databases"}, databases)
//
// WriteRights doesn't know which requests handlers send with the request's client, so declare them with [Needs]. It returns an error if the
// declaration is invalid.
func WriteRights(w io.Writer, scheme *runtime.Scheme, options rights.Options, opts ...Option) error {
	switch {
	case options.Name == "":
		return errors.New("rights.Options has no Name: set it to the name of the roles")
	case options.Namespace == "" && (options.ServiceAccount != "" || options.LeaderElection):
		return errors.New("rights.Options has no Namespace: set it to the namespace of the operator")
	}
	o := New(nil, opts...)
	needs, err := o.declaredRights(scheme, options)
	if err != nil {
		return err
	}
	return rbac.WriteRoles(w, rbac.Options{Name: options.Name, ServiceAccount: options.ServiceAccount, Namespace: options.Namespace}, needs)
}

// declaredRights returns the permissions that an operator needs, without a manager.
func (o *Operator) declaredRights(scheme *runtime.Scheme, options rights.Options) (needs []rbac.Need, err error) {
	errs := slices.Concat(o.errs, operator.Mistakes(o.parts(nil)))
	if scheme == nil {
		errs = append(errs, errors.New("the scheme is nil: pass the scheme of the manager"))
	}
	if options.Namespace == "" && o.kinds.Ring.NeedsNamespace() {
		errs = append(errs, errors.New("rights.Options has no Namespace: set it to the namespace of the operator, which contains the Leases of the shards"))
	}
	if scheme != nil && o.webhookOptions != nil {
		errs = append(errs, checkWebhooks(scheme, *o.webhookOptions, options.Namespace))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	namespaces := options.Namespaces
	if len(namespaces) == 0 {
		namespaces = o.kinds.Namespaces.Exact()
	}
	r := neededRights{
		operator: o, scheme: scheme, namespaces: func(schema.GroupVersionKind) []string { return namespaces },
		lookUp: func(gvk schema.GroupVersionKind) (schema.GroupResource, bool) { return lookUpIn(options.Kinds, gvk) },
	}
	resources := slices.Clone(o.resources)
	for _, s := range o.selections {
		selected, patterns, err := s.declarations(options.Kinds)
		if err != nil {
			errs = append(errs, err)
		}
		resources = append(resources, selected...)
		for _, pattern := range patterns {
			n := rbac.Need{Group: pattern.Group, Resource: pattern.Resource, Verbs: []string{"get", "list", "watch", "patch"}, Level: rbac.Needed, Reason: "kinds of ForKinds"}
			needs = append(needs, r.inDefault(n)...)
			if pattern.Resource != "*" {
				n.Resource, n.Verbs = n.Resource+"/status", []string{"patch"}
				needs = append(needs, r.inDefault(n)...)
			}
			needs = append(needs, r.ofSideObjects(schema.GroupVersionKind{})...)
		}
	}
	for _, one := range resources {
		kind, err := one.kind(scheme, o.kinds.Settings.Store, nil)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		kind.HasStatus = hasStatus(options.Kinds, kind.New(), kind.GVK)
		if watched := watchedKind(kind, one); !one.hasOnlyAdmission() {
			needs = append(needs, r.ofKind(&watched)...)
		}
	}
	more, err := r.ofHandlers()
	errs = append(errs, err)
	more = append(more, operator.Rights(o.parts(nil), options.Namespace)...)
	if options.LeaderElection {
		more = append(more,
			rbac.Need{Group: "coordination.k8s.io", Resource: "leases", Namespace: options.Namespace, Verbs: []string{"get", "create", "update"}, Level: rbac.Required, Reason: leaderElection},
			rbac.Need{Resource: "events", Namespace: options.Namespace, Verbs: []string{"create", "patch"}, Reason: leaderElection})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("the permissions of the operator are not known:\n%w", err)
	}
	return append(needs, more...), nil
}
